package words_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/words"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// The file that is written for a limit in words decides as the limit does, by each of its
// sources. Where all clients count together it tells addresses and clientIds apart, so only
// one of the two is asked for there.
func TestWriteWordsDecidesAlike(t *testing.T) {
	sources := []string{"", " by ip", " by client_id", " by all", " by header:X-Key", " by ip and path", " by header:X-Key and path"}
	counting := []string{"", " using fixed_window", " using token_bucket", " burst 7 using token_bucket", " burst 9 using leaky_bucket", " using sliding_counter"}
	refused := 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		one := func(of ...string) string { return of[r.IntN(len(of))] }
		by := sources[seed%uint64(len(sources))]
		text := fmt.Sprintf("%d/%s%s%s", 1+r.IntN(30), one("second", "minute", "10s", "hour"), by, one(counting...))
		var now atomic.Int64
		now.Store(1_700_000_000_000_000)
		limiters := [2]*weir.Limiter{newWordsLimiter(t, set(t, text), &now), newWordsLimiter(t, loadWords(t, text), &now)}
		for step := range 200 {
			now.Add(r.Int64N(300_000))
			entries := [][]weir.Entry{{{Key: "remote_address", Value: one("192.0.2.1", "192.0.2.2")}}, {{Key: "client_id", Value: one("a", "b")}}, {{Key: "header:X-Key", Value: one("a", "b")}}}[r.IntN(3)]
			if by == " by all" {
				entries = []weir.Entry{{Key: "remote_address", Value: one("192.0.2.1", "192.0.2.2")}}
			}
			if r.IntN(2) == 0 && by != " by all" {
				entries = append(entries, weir.Entry{Key: "path", Value: one("/", "/login")})
			}
			var got [2]weir.Decision
			for i, l := range limiters {
				req := l.Acquire()
				req.Domain, req.Descriptors = "api", append(req.Descriptors, weir.Descriptor{Entries: entries, Cost: int64(1 + step%2)})
				var err error
				if got[i], err = l.Decide(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				l.Recycle(req)
			}
			a, b := got[0], got[1]
			if a.Allowed() != b.Allowed() || a.Remaining != b.Remaining || a.RetryAfter != b.RetryAfter || a.ResetAfter != b.ResetAfter || (a.Limit == nil) != (b.Limit == nil) {
				t.Fatalf("%q, step %d, %v: the limit in words says %v, its file %v", text, step, entries, a, b)
			}
			if !a.Allowed() {
				refused++
			}
		}
	}
	if refused < 1000 {
		t.Errorf("%d refusals: little is compared", refused)
	}
}

// loadWords loads the file for a limit in words.
func loadWords(t *testing.T, text string) *limits.Set {
	file, err := words.File(text, "api", true)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	set, found := rules.Check([]string{path}, rules.Options{})
	if len(found) > 0 {
		t.Fatalf("%q: %v\n%s", text, found, file)
	}
	return set
}

func newWordsLimiter(t *testing.T, r weir.Rules, now *atomic.Int64) *weir.Limiter {
	store := memory.New(memory.Options{MaxBytes: 1 << 20, Now: now.Load})
	t.Cleanup(func() { store.Close() })
	l, err := weir.New(store, r, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
