package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// A value of a type that nobody reads is an error that names it, never a zero.
func TestLineTypes(t *testing.T) {
	reads := map[string]func(rows.Row){
		"Int":   func(r rows.Row) { r.Int(0) },
		"Text":  func(r rows.Row) { r.Text(0) },
		"Bytes": func(r rows.Row) { r.Bytes(0) },
	}
	for value, by := range map[any]string{
		int64(1): "Int", int32(1): "Int", int16(1): "Int", "x": "Text", 1.5: "", float32(1): "", true: "", uint64(1): "", time.Time{}: "", [1]int{}: "",
	} {
		for name, get := range reads {
			err := callWithLine(func(_ int, r rows.Row) error { get(r); return nil }, 0, line{value})
			if name == by {
				if err != nil {
					t.Errorf("%s of a %T: %v", name, value, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), "CAST") {
				t.Errorf("%s of a %T: %v, want an error that says what to do", name, value, err)
			}
		}
	}
	for name, get := range reads {
		if err := callWithLine(func(_ int, r rows.Row) error { get(r); return nil }, 0, line{nil}); err != nil {
			t.Errorf("%s of NULL: %v", name, err)
		}
	}
}
