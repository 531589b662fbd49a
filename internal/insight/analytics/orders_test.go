package analytics

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/weirlimit/weir/internal/testing/bubble"
)

// What several sources handed out together is worked on until the last of them ends, in
// whatever order they do.
func TestFamilyOneSourceEndsAlone(t *testing.T) {
	for first := range 3 {
		bubble.Test(t, func(t *testing.T) {
			var orders []*order
			var cancels []context.CancelFunc
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				orders, cancels = append(orders, &order{ctx: ctx}), append(cancels, cancel)
			}
			ctx, stop := untilAll(orders)
			defer stop()
			for i := range 3 {
				if ctx.Err() != nil {
					t.Fatalf("the work ended after %d of 3 sources, of which %d was first", i, first)
				}
				cancels[(first+i)%3]()
				synctest.Wait()
			}
			if ctx.Err() == nil {
				t.Error("the work goes on after all sources")
			}
		})
	}
}
