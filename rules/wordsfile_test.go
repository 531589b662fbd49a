package rules_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/rules"
)

func loadText(t *testing.T, text string) *rules.Set {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Load([]string{file}, rules.Options{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return set
}

// A limit in words is a file of its own.
func TestWordsInFile(t *testing.T) {
	w := &weir.Limit{Name: `20/10s by "x"`, Scope: "s", Algorithm: algorithm.TokenBucket, Count: 20, Period: 10e9, Burst: 40}
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	for _, shared := range []bool{false, true} {
		set := loadText(t, rules.WordsInFile("api", [][]string{{"remote_address"}, {"client_id"}}, w, shared))
		for _, key := range []string{"remote_address", "client_id"} {
			ops := set.Match(nil, &weir.Request{Domain: "api", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: key, Value: "a"}}}}})
			if len(ops) != 1 || ops[0].Limit.Count != 20 || ops[0].Limit.Burst != 40 || ops[0].Limit.Algorithm != algorithm.TokenBucket || (ops[0].Key == "") != shared {
				t.Errorf("%s, shared %t: %+v", key, shared, ops)
			}
		}
		several := &weir.Request{Domain: "api", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "header:X-Key", Value: "a"}, {Key: "path", Value: "/"}}}}}
		if ops := loadText(t, rules.WordsInFile("api", [][]string{{"header:X-Key", "path"}}, w, false)).Match(nil, several); len(ops) != 1 || ops[0].Key != several.KeyOf(&several.Descriptors[0]) {
			t.Errorf("two keys meet %+v", ops)
		}
	}
}
