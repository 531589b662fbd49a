package weir_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

func codes(first, last int) (c weir.Codes) {
	c.Add(first, last)
	return c
}

// end asks for key and adjusts the charge with res. It returns whether the
// request passed.
func (b *testbed) end(key string, cost int64, res weir.Result) bool {
	b.t.Helper()
	r, d := b.ask(key, func(r *weir.Request) { r.Cost = cost })
	if err := b.Adjust(context.Background(), r, res); err != nil {
		b.t.Fatal(err)
	}
	return d.Allowed()
}

// left returns what remains for key.
func (b *testbed) left(key string) int64 {
	b.t.Helper()
	_, d := b.ask(key, func(r *weir.Request) { r.Verb = weir.Peek })
	return d.Remaining
}

// settling are the algorithms whose charges can be adjusted.
var settling = []weir.Algorithm{
	algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter,
	algorithm.SlidingSubwindows, algorithm.SlidingLog,
}

// Only failed logins count: the sixth is refused after five of them, however
// many succeeded in between.
func TestSettleCountsChosenCodes(t *testing.T) {
	for _, a := range settling {
		t.Run(a.Name(), func(t *testing.T) {
			l := weir.PerHour(5, a)
			l.Adjustment = &weir.Adjustment{CountOn: codes(401, 403)}
			b := newTestbed(t, l)
			for i := range 5 {
				for range 20 {
					if !b.end("alice", 1, weir.Result{Code: 200}) {
						t.Fatalf("a good login after %d bad ones was refused", i)
					}
				}
				if left := b.left("alice"); left != int64(5-i) {
					t.Fatalf("after %d bad logins %d are left", i, left)
				}
				if !b.end("alice", 1, weir.Result{Code: 401}) {
					t.Fatalf("bad login %d was refused", i+1)
				}
			}
			if b.end("alice", 1, weir.Result{Code: 401}) {
				t.Error("the sixth bad login passed")
			}
		})
	}
}

// While answers are still out, no more requests pass than would if all of them
// counted.
func TestSettleChargesFirst(t *testing.T) {
	l := weir.PerHour(5, algorithm.TokenBucket)
	l.Adjustment = &weir.Adjustment{CountOn: codes(401, 401)}
	b := newTestbed(t, l)
	if got := b.run(7, "alice", nil); got != "aaaaarr" {
		t.Errorf("seven at once: %s", got)
	}
}

func TestSettleRefunds(t *testing.T) {
	l := weir.PerHour(3, algorithm.SlidingLog)
	l.Adjustment = &weir.Adjustment{RefundOn: codes(500, 599)}
	l.Adjustment.RefundOn.Add(weir.NoAnswer, weir.NoAnswer)
	b := newTestbed(t, l)
	for _, code := range []int{503, weir.NoAnswer, 599, 500} {
		b.end("a", 1, weir.Result{Code: code})
	}
	if left := b.left("a"); left != 3 {
		t.Errorf("after four failures of the upstream %d are left of 3", left)
	}
	for _, code := range []int{200, 404, 499} {
		b.end("a", 1, weir.Result{Code: code})
	}
	if left := b.left("a"); left != 0 {
		t.Errorf("after three answers %d are left", left)
	}
}

func TestSettleMeasures(t *testing.T) {
	number := func(n int64, ok bool) func(string) (int64, bool) {
		return func(field string) (int64, bool) {
			if field != "X-Cost" {
				t.Errorf("asked for %q", field)
			}
			return n, ok
		}
	}
	header := weir.Adjustment{Header: "X-Cost"}
	tests := []struct {
		name string
		s    weir.Adjustment
		res  weir.Result
		cost int64 // estimated
		want int64 // spent in the end, of 1000
	}{
		{"bytes", weir.Adjustment{Per: 1}, weir.Result{Code: 200, Bytes: 300}, 1, 300},
		{"no bytes", weir.Adjustment{Per: 1}, weir.Result{Code: 204}, 1, 0},
		{"a part of a KiB", weir.Adjustment{Per: 1024}, weir.Result{Code: 200, Bytes: 2049}, 1, 3},
		{"whole KiB", weir.Adjustment{Per: 1024}, weir.Result{Code: 200, Bytes: 2048}, 1, 2},
		{"header", header, weir.Result{Code: 200, Number: number(40, true)}, 1, 40},
		{"header below the estimate", header, weir.Result{Code: 200, Number: number(40, true)}, 100, 40},
		{"no header", header, weir.Result{Code: 200, Number: number(0, false)}, 100, 100},
		{"a negative header", header, weir.Result{Code: 200, Number: number(-5, true)}, 100, 100},
		{"nobody to ask", header, weir.Result{Code: 200}, 100, 100},
		{"not counted", weir.Adjustment{Per: 1, CountOn: codes(200, 299)}, weir.Result{Code: 404, Bytes: 500}, 7, 0},
		{"both lists", weir.Adjustment{CountOn: codes(400, 499), RefundOn: codes(404, 404)}, weir.Result{Code: 404}, 7, 0},
		{"more than there is", weir.Adjustment{Per: 1}, weir.Result{Code: 200, Bytes: 5000}, 1, 1000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := weir.PerHour(1000, algorithm.FixedWindow)
			l.Adjustment = &tt.s
			b := newTestbed(t, l)
			b.end("k", tt.cost, tt.res)
			if left := b.left("k"); 1000-left != tt.want {
				t.Errorf("%d spent, want %d", 1000-left, tt.want)
			}
		})
	}
}

// What was spent in a window that is over is not given back to the next.
func TestSettleLate(t *testing.T) {
	l := weir.PerMinute(10, algorithm.FixedWindow)
	l.Adjustment = &weir.Adjustment{RefundOn: codes(500, 599)}
	b := newTestbed(t, l)
	r, _ := b.ask("k", func(r *weir.Request) { r.Cost = 4 })
	b.now.Add(time.Minute)
	b.ask("k", func(r *weir.Request) { r.Cost = 3 })
	if err := b.Adjust(context.Background(), r, weir.Result{Code: 500}); err != nil {
		t.Fatal(err)
	}
	if left := b.left("k"); left != 7 {
		t.Errorf("%d left, want 7", left)
	}
}

// Soft thresholds and pools are adjusted with the limit they belong to.
func TestSettleModes(t *testing.T) {
	refund := &weir.Adjustment{RefundOn: codes(500, 599)}
	soft := weir.PerHour(4, algorithm.FixedWindow)
	soft.Excess, soft.Adjustment = 50, refund
	b := newTestbed(t, soft)
	for range 9 {
		b.end("k", 1, weir.Result{Code: 500})
	}
	if got := b.run(7, "k", nil); got != "aaaassr" {
		t.Errorf("soft: %s", got)
	}

	elastic := weir.PerHour(2, algorithm.FixedWindow)
	elastic.Pool, elastic.PoolKey, elastic.Adjustment = weir.PerHour(5, algorithm.FixedWindow), "pool", refund
	b = newTestbed(t, elastic)
	b.run(2, "k", nil) // the own share
	for range 9 {
		if !b.end("k", 1, weir.Result{Code: 500}) {
			t.Fatal("a refunded loan was not given back to the pool")
		}
	}
	if got := b.run(4, "k", nil); got != "bbbr" {
		t.Errorf("elastic: %s", got)
	}
}

func TestNeedsResult(t *testing.T) {
	plain, settled := weir.PerHour(5, algorithm.TokenBucket), weir.PerHour(9, algorithm.TokenBucket)
	settled.Adjustment = &weir.Adjustment{CountOn: codes(401, 401)}
	r, _ := newTestbed(t, plain).ask("k", nil)
	if r.NeedsResult() {
		t.Error("a plain limit waits for its answer")
	}
	b := newTestbed(t, plain, settled)
	if r, _ = b.ask("k", nil); !r.NeedsResult() {
		t.Error("a limit with an adjustment does not wait")
	}
	if r, _ = b.ask("k", func(r *weir.Request) { r.Cost = 100 }); r.NeedsResult() {
		t.Error("a refused request waits for an answer")
	}
}

func TestAdjustmentIsChecked(t *testing.T) {
	tests := []struct {
		a    weir.Algorithm
		s    weir.Adjustment
		want string
	}{
		{algorithm.Concurrency, weir.Adjustment{}, "concurrency"},
		{algorithm.Approximate, weir.Adjustment{}, "approximate"},
		{algorithm.LeakyQueue, weir.Adjustment{}, "queue"},
		{algorithm.TokenBucket, weir.Adjustment{Per: -1}, "bytes per unit"},
		{algorithm.TokenBucket, weir.Adjustment{Per: 1, Header: "X-Cost"}, "header"},
	}
	for _, tt := range tests {
		l := weir.PerHour(5, tt.a)
		l.Adjustment = &tt.s
		if err := l.Compile(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q in it", tt.a.Name(), err, tt.want)
		}
	}
}

func TestCodes(t *testing.T) {
	var c weir.Codes
	if !c.Empty() || c.Has(0) {
		t.Error("the zero Codes is not empty")
	}
	c.Add(-5, 0)
	c.Add(63, 65)
	c.Add(630, 5000)
	for code := -2; code < 700; code++ {
		want := code == 0 || code >= 63 && code <= 65 || code >= 630 && code <= weir.MaxCode
		if c.Has(code) != want {
			t.Errorf("code %d: %v", code, c.Has(code))
		}
	}
}
