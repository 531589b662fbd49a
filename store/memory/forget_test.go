package memory

import (
	"context"
	"strconv"
	"testing"
)

// A row that goes leaves no hole that hides another.
func TestForgettingLosesNoOtherKey(t *testing.T) {
	const keys = 3000
	ctx := context.Background()
	s, _ := newStore(t, Options{})
	for _, l := range tallies(t) {
		for want := range int64(2) {
			for k := range keys {
				if want == 1 && k%3 == 0 {
					if found, err := s.Forget(ctx, strconv.Itoa(k), l); !found || err != nil {
						t.Fatalf("key %d is not found (%v)", k, err)
					}
					continue
				}
				if d, err := s.TakeOne(ctx, strconv.Itoa(k), l, 1); err != nil || d.Remaining != want+1 {
					t.Fatalf("key %d counts %d, want %d (%v)", k, d.Remaining, want+1, err)
				}
			}
		}
	}
	walk(t, s)
}
