package figures_test

import (
	"math"
	"testing"

	"github.com/weirlimit/weir/internal/figures"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 nodes", 1: "1 node", 2: "2 nodes", 999: "999 nodes", 1000: "1,000 nodes", 1234567: "1,234,567 nodes",
		-1: "-1 nodes", -100: "-100 nodes", -1000: "-1,000 nodes", math.MinInt64: "-9,223,372,036,854,775,808 nodes",
	} {
		if got := figures.Count(n, "node"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
