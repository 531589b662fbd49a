package hangup

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// Names are those of the limits that [Counted] looks at: one that counts failures, one that
// gives back what failed for the service's sake, and one that charges bytes.
var Names = []string{"failures", "fair", "bytes"}

// Count is the count of each: more than all ways use up.
const Count = 100 * Large

// Counted has start serve limited, which is before h, plays every way at the address that it
// returns, and fails unless each is counted once by each of the limits of lim, and what was
// sent by the last.
func Counted(t *testing.T, lim *weir.Limiter, domain string, limited http.Handler, h *Handler, start func(http.Handler) (addr string)) {
	t.Helper()
	ended := make(chan struct{}, 1)
	addr := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		limited.ServeHTTP(w, r)
	}))
	spent := func() (n [3]int64) {
		t.Helper()
		req := &weir.Request{Domain: domain, Verb: weir.Peek, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "remote_address", Value: "127.0.0.1"}}}}}
		if _, err := lim.Decide(context.Background(), req); err != nil {
			t.Fatal(err)
		}
		for _, op := range req.Ops() {
			n[slices.Index(Names, op.Limit.Name)] = Count - op.Decision.Remaining
		}
		return n
	}
	for _, w := range Ways() {
		before := spent()
		w.Play(t, addr, h)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: does not end", w.Name)
		}
		now, atLeast := spent(), int64(1)
		if w.Path != "/late" {
			atLeast = 2
		}
		if now[0] != before[0]+1 || now[1] != before[1]+1 || now[2] < before[2]+atLeast {
			t.Errorf("%s: counted %d of failures, %d in all and %d of bytes", w.Name, now[0]-before[0], now[1]-before[1], now[2]-before[2])
		}
	}
}
