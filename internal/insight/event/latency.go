package event

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
)

// Latency tells how long decisions took: how many fell into each bucket. Two of them
// become one by adding the counts, and lose nothing by it.
type Latency struct {
	// Every is how many decisions there are for each one whose time was taken.
	Every int64 `json:"sample_one_in"`
	// Counts are the buckets that are not empty, in their order.
	Counts []LatencyCount `json:"counts"`
}

// LatencyCount is how many decisions fell into a bucket. In JSON it is an array of
// the two.
type LatencyCount struct {
	Bucket int
	Count  uint64
}

// LatencyBuckets is how many buckets there are. A power of two nanoseconds is divided
// into eight, from 64 ns to 34 s: a bucket is at most an eighth wide. Below they are
// of 8 ns, and what takes longer is in the last.
//
// Source: Gil Tene, HdrHistogram, whose buckets these are with three bits.
const LatencyBuckets = 8 + (latencyTop-latencyBottom+1)*8

// Powers of two, in nanoseconds, between which buckets grow.
const latencyBottom, latencyTop = 6, 34

// LatencyBucket returns the bucket of a duration.
func LatencyBucket(d time.Duration) int {
	ns := uint64(max(d, 0))
	if ns < 1<<latencyBottom {
		return int(ns >> 3)
	}
	power := bits.Len64(ns) - 1
	if power > latencyTop {
		return LatencyBuckets - 1
	}
	return 8 + (power-latencyBottom)*8 + int(ns>>(power-3)&7)
}

// LatencyBound returns what all of a bucket are below; of the last one it is where
// buckets end.
func LatencyBound(bucket int) time.Duration {
	if bucket < 8 {
		return time.Duration(bucket+1) * 8
	}
	power, part := latencyBottom+(bucket-8)/8, (bucket-8)%8
	return time.Duration(8+part+1) << (power - 3)
}

// MarshalJSON implements json.Marshaler.
func (c LatencyCount) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]uint64{uint64(c.Bucket), c.Count})
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *LatencyCount) UnmarshalJSON(b []byte) error {
	var v []uint64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if len(v) != 2 || v[0] >= LatencyBuckets {
		return fmt.Errorf("event: a count of latencies is a bucket from 0 to %d and a number", LatencyBuckets-1)
	}
	c.Bucket, c.Count = int(v[0]), v[1]
	return nil
}

func (l *Latency) checkBuckets() error {
	if l.Every < 1 {
		return fmt.Errorf("latency: of one decision in %d: it is one in one at least", l.Every)
	}
	if err := checkCounts(l.Counts); err != nil {
		return fmt.Errorf("latency: %w", err)
	}
	return nil
}

// checkCounts checks the order of buckets.
func checkCounts(counts []LatencyCount) error {
	last := -1
	for _, c := range counts {
		if c.Bucket <= last {
			return fmt.Errorf("bucket %d is not behind bucket %d", c.Bucket, last)
		}
		last = c.Bucket
	}
	return nil
}

// latencies counts durations. Safe for concurrent use.
type latencies [LatencyBuckets]atomic.Uint32

// takeCounts returns what was counted since the last call, nil if nothing was.
func (l *latencies) takeCounts() (out []LatencyCount) {
	for i := range l {
		if l[i].Load() > 0 {
			out = append(out, LatencyCount{i, uint64(l[i].Swap(0))})
		}
	}
	return out
}
