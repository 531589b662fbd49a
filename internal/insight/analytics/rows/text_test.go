package rows

import (
	"fmt"
	"testing"
)

func TestEstimate(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5, 10, 20, 50} {
		total := 0.0
		for run := range 50 {
			bits := int64(0)
			for i := range n {
				bits |= wordBit(fmt.Sprint(run, " word ", i))
			}
			total += float64(estimate(bits))
		}
		if mean := total / 50; mean < 0.9*float64(n) || mean > 1.1*float64(n) {
			t.Errorf("%d words are estimated as %.1f", n, mean)
		}
	}
	if estimate(-1) < 200 {
		t.Errorf("all bits are %d words", estimate(-1))
	}
}
