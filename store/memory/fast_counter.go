package memory

import "math"

// A rate tells time by ticks of the processor's counter.
type rate struct {
	// scale is how many microseconds a tick takes, in parts of 2^scaleBits; zero
	// where it is not known.
	scale uint64
	// every is how many ticks there are in anchorEvery.
	every uint64
}

// scaleBits lets a scale be exact to a microsecond in minutes, and the ticks of
// fifteen seconds be multiplied with it.
const scaleBits = 40

// toMicros returns how many microseconds so many ticks take, those of fifteen seconds at
// most.
func (r *rate) toMicros(ticks uint64) int64 { return int64(ticks * r.scale >> scaleBits) }

// measure returns the rate from a to b, and whether the counter is to be trusted: it
// ticks like a processor, and as r, the rate until now, said it would.
func (r *rate) measure(a, b instant) (rate, bool) {
	ticks, micros := float64(b.ticks-a.ticks), float64(b.mono-a.mono)/1000
	if perMicro := ticks / micros; !(perMicro > 100 && perMicro < 10_000) {
		return rate{}, false
	}
	one := math.Exp2(scaleBits)
	if r.scale != 0 {
		// NTP changes the rate of the monotonic clock by a part in 2,000 at most.
		const within, least = 0.001, 20
		if measured := ticks * float64(r.scale) / one; math.Abs(measured-micros) > micros*within+least {
			return rate{}, false
		}
	}
	return rate{
		scale: uint64(one * micros / ticks),
		every: uint64(ticks * float64(anchorEvery) / 1000 / micros),
	}, true
}
