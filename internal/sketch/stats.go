package sketch

import "math"

// Stats says how exact a [Window] is: what the theory promises for its present
// load, and what the sampled keys show.
type Stats struct {
	// Bytes is the memory of the window.
	Bytes int64
	// Units is the sum of units admitted in the live generations; CounterUnits
	// the part that lies in counters, without the first units of keys.
	Units, CounterUnits int64

	// Bound is e*M/width of the fullest shard, plus one for each live generation
	// in use (a wrong yes of its Bloom filter): units by which a key is over-estimated
	// at most, but for a chance of BoundFailure, e^-depth.
	Bound, BoundFailure float64
	// CounterFill is the share of counters above zero in the fullest live
	// generation of any shard.
	CounterFill float64
	// BloomFill is the share of bits set in the fullest live generation of any
	// shard, and BloomExpected the share of false positives that follows from it.
	BloomFill, BloomExpected float64

	// SampleShare is the share of keys that are also counted exactly, at
	// present, in the shard that samples least.
	SampleShare float64
	// Sampled is the number of exactly counted keys with units in the live
	// generations, Overestimated how many of them have a larger estimate.
	Sampled, Overestimated int
	// MeanError and MaxError are the units by which estimates exceed the exact
	// counts, over all Sampled.
	MeanError float64
	MaxError  int64
	// BloomTrials counts the pairs of a sampled key and a live generation in
	// which it spent nothing; BloomFalse those where the Bloom filter knows it
	// nevertheless. BloomFalse/BloomTrials is the measured share of false
	// positives, to be compared with BloomExpected.
	BloomTrials, BloomFalse int
}

// FalsePositives returns the measured share of false positives, 0 without trials.
func (s Stats) FalsePositives() float64 { return ratio(s.BloomFalse, s.BloomTrials) }

func ratio(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Stats measures the window at now. It locks one shard after the other, each for
// the time its sampled keys take (64 of them by default).
func (w *Window) Stats(now int64) Stats {
	st := Stats{Bytes: w.bytes, SampleShare: 1}
	depth := w.shards[0].ring[0].counts.depth
	st.BoundFailure = math.Exp(-float64(depth))
	var errors float64
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		s.addToStats(&st, now)
		errors += s.measure(&st, now)
		s.mu.Unlock()
	}
	if st.Sampled > 0 {
		st.MeanError = errors / float64(st.Sampled)
	}
	return st
}

// oldestLive returns the oldest generation live at now. Generations from it to
// newest are live: none if it is later.
func (s *shard) oldestLive(now int64) int64 {
	generations := int64(len(s.ring))
	newest := max(s.newest, floorDiv(now, s.span))
	if newest < math.MinInt64+generations {
		return math.MinInt64
	}
	return newest - generations + 1
}

// addToStats adds what the shard holds at now. Requires: the shard is locked.
func (s *shard) addToStats(st *Stats, now int64) {
	st.SampleShare = min(st.SampleShare, s.sample.sampledShare())
	if !s.started {
		return
	}
	var shared int64
	live, used := 0, 0
	for g := s.newest; g >= s.oldestLive(now) && live < len(s.ring); g-- {
		gen := &s.ring[s.ringSlot(g)]
		live++
		if gen.units > 0 {
			used++
		}
		st.Units = addSaturated(st.Units, gen.units)
		shared = addSaturated(shared, gen.shared)
		st.CounterFill = max(st.CounterFill, gen.counts.FillShare())
		if fill := gen.seen.fillShare(); fill > st.BloomFill {
			st.BloomFill, st.BloomExpected = fill, gen.seen.falsePositives()
		}
	}
	st.CounterUnits = addSaturated(st.CounterUnits, shared)
	bound := math.E*float64(shared)/float64(s.ring[0].counts.Width()) + float64(used)
	st.Bound = max(st.Bound, bound)
}

// measure compares the sampled keys at now with their estimates and returns the
// sum of errors. Requires: the shard is locked.
func (s *shard) measure(st *Stats, now int64) (errors float64) {
	from := max(s.oldestLive(now), s.sample.exact)
	for i, h := range s.sample.hashes[:s.sample.keys] {
		counts := s.sample.countsOf(i)
		var exact, estimate int64
		trials, wrong := 0, 0
		for g, n := s.newest, 0; g >= from && n < len(s.ring); g, n = g-1, n+1 {
			slot, p := s.ringSlot(g), s.generationProbe(h, g)
			exact = addSaturated(exact, counts[slot])
			estimate = addSaturated(estimate, s.ring[slot].estimate(p))
			if counts[slot] == 0 {
				trials++
				if s.ring[slot].seen.contains(p) {
					wrong++
				}
			}
		}
		if exact == 0 {
			continue
		}
		st.Sampled++
		st.BloomTrials += trials
		st.BloomFalse += wrong
		if over := estimate - exact; over > 0 {
			st.Overestimated++
			st.MaxError = max(st.MaxError, over)
			errors += float64(over)
		}
	}
	return errors
}
