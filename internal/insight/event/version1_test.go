package event

import (
	"reflect"
	"strings"
	"testing"
)

// Events of version 1, which a queue may still hold, mean what those of version 2 do.
func TestDecodeVersion1(t *testing.T) {
	old := strings.NewReplacer("record.v2", "record.v1", "rollup.v2", "rollup.v1", `"unhashed":`, `"plain":`, `"early_retries":`, `"early":`,
		`"min_remaining":`, `"least":`, `"sample_one_in":`, `"every":`, `"recently_limited":`, `"watched":`, `"client_info":`, `"about":`,
		`"arrivals_truncated":`, `"arrivals_cut":`, `"decided":`, `"decisive":`)
	for _, e := range examples() {
		b, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		want, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		responses := `"answers":`
		if e.Rollup != nil {
			responses = `"answered":`
		}
		text := strings.ReplaceAll(old.Replace(string(b)), `"responses":`, responses)
		if e.Loss == nil && text == string(b) {
			t.Fatalf("no name was replaced: %s", text)
		}
		got, err := Decode([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", text, got, err, want)
		}
	}
}
