package resp

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// TestRefundOfBorrowedUnits: what a key has borrowed from a pool goes back to the pool, not
// to the key's own share too, which would hold more than it is assured.
func TestRefundOfBorrowedUnits(t *testing.T) {
	set, err := rules.Parse("test.yaml", []byte(`
domain: shop
defaults: {algorithm: fixed_window}
pools:
  spare: {limit: 6/hour}
descriptors:
  - {key: buyer, limit: 2/hour, mode: elastic, pool: spare, ceiling: 5}
`), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{MaxBytes: 8 << 20, Now: func() int64 { return epoch }})
	t.Cleanup(func() { store.Close() })
	limiter, err := weir.New(store, set, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := newBench(t, Options{Limiter: limiter, Keyring: store}).dial(t)
	passed := func(buyer string, times int) (n int) {
		for range times {
			if strings.Contains(c.do("WEIR.CHECK", "shop", "buyer", buyer), "allowed|:1") {
				n++
			}
		}
		return n
	}
	if n := passed("a", 4); n != 4 { // two of its own, and two borrowed
		t.Fatalf("%d of 4 pass", n)
	}
	if got := c.do("WEIR.REFUND", "shop", "buyer", "a", "COST", "2"); !strings.HasPrefix(got, ":") {
		t.Fatal(got)
	}
	// Another takes what the pool has, and the first has nothing of its own left.
	if n := passed("b", 9); n != 4 {
		t.Errorf("%d pass of another, want 4", n)
	}
	if n := passed("a", 9); n != 0 {
		t.Errorf("%d pass of the first, want none", n)
	}
	if n := passed("c", 9); n != 2 {
		t.Errorf("%d pass of a third, want the 2 that it is assured", n)
	}
}
