//go:build !race

// sync.Pool drops at random under the race detector.

package answer_test

import (
	"net/http"
	"testing"

	"github.com/weirlimit/weir/answer"
)

// TestHeaderAllocatesTwice: whatever the sets, the style and the options.
func TestHeaderAllocatesTwice(t *testing.T) {
	for _, s := range situations(t) {
		for _, sets := range combinations {
			for _, style := range answer.Styles() {
				for _, key := range [][]byte{nil, []byte("0123456789abcdef")} {
					opt := answer.Options{Headers: sets, Reset: style, PartitionKey: key, Expose: true, Jitter: 10}
					w, h := newWriter(t, opt), http.Header{}
					w.Header(h, s.ops, s.d, s.now)
					if n := testing.AllocsPerRun(20, func() { clear(h); w.Header(h, s.ops, s.d, s.now) }); n > 2 {
						t.Errorf("%s, %v: %v allocations, want 2", s.name, opt, n)
					}
				}
			}
		}
	}
}
