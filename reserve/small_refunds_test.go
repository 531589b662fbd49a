package reserve_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/reserve"
)

// usedOf returns how many units of 10,000 a minute are used over ten minutes when a
// hundred reservations of ten units a second each give five back after two seconds: the
// mean of a minute, and the most of any.
func usedOf(t *testing.T, a weir.Algorithm) (mean, most int64) {
	d := newDesk(t, clocked.New(t), weir.Limits{weir.PerMinute(10_000, a)}, reserve.Options{})
	type open struct {
		handle string
		due    int
	}
	const ticks = 100 * 60 * 10 // hundredths of a second
	var waiting []open
	used := make([]int64, ticks)
	var sum, last, all int64
	for now := range ticks {
		for len(waiting) > 0 && waiting[0].due <= now {
			if _, err := d.Commit(context.Background(), waiting[0].handle, 5); err != nil {
				t.Fatal(err)
			}
			waiting = waiting[1:]
		}
		res, err := d.Reserve(context.Background(), request(10, "ann"))
		if err != nil {
			t.Fatal(err)
		}
		if res.Decision.Allowed() {
			waiting = append(waiting, open{res.Handle, now + 200})
			used[now] = 5
		}
		last += used[now]
		if now >= 6000 {
			last -= used[now-6000]
			all += used[now]
		}
		sum = max(sum, last)
		d.store.Advance(10 * time.Millisecond)
	}
	return all / 9, sum
}

// Small refunds leave less of a strict window of batches, and of a bucket; never is
// there more. Sub-windows take them back to the unit. docs/explanation/algorithms.md
// says these numbers.
func TestSmallRefunds(t *testing.T) {
	for _, c := range []struct {
		a                 weir.Algorithm
		least, mean, most int64
	}{
		{algorithm.SlidingWindow, 7_600, 8_000, 10_000},
		{algorithm.SlidingSubwindows, 9_900, 10_000, 10_000},
		{algorithm.TokenBucket, 4_900, 5_100, 10_000},
		{algorithm.FixedWindow, 9_900, 10_000, 20_000},
	} {
		if mean, most := usedOf(t, c.a); mean < c.least || mean > c.mean || most > c.most {
			t.Errorf("%s: %d a minute, at most %d; want %d to %d, at most %d", c.a.Name(), mean, most, c.least, c.mean, c.most)
		}
	}
}
