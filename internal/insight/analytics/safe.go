package analytics

import (
	"cmp"
	"slices"
	"strconv"
)

// What moments are judged by; see SafeRate.
const (
	// SafeAnswers is the fewest answers of a moment that is judged, SafeMoments the
	// fewest such moments that a rate is inferred from.
	SafeAnswers = 20
	SafeMoments = 10
	// SafeErrors is the share of server errors of a strained moment, SafeSlower how many
	// times the usual its 99th percentile is.
	SafeErrors = 0.01
	SafeSlower = 2
	// SafeSeparation is the least by which a rate must tell strained moments from
	// others.
	SafeSeparation = 0.5
)

// moment is what the upstream was sent in a row's time, and how it answered.
type moment struct {
	at                int64
	admitted, refused int64
	responses         answering
	// p99 is in milliseconds. Both are set by judge.
	p99      float64
	strained bool
}

func (m *moment) rate(seconds int64) float64 { return float64(m.admitted) / float64(seconds) }

// safeRate says how the upstream fared above a rate and below it: the one that is
// given, or if that is zero the one that the moments, of so many seconds each, show.
func safeRate(moments []*moment, seconds int64, allowance float64) SafeRate {
	out := SafeRate{StepS: seconds}
	classified := out.classify(moments)
	if allowance > 0 {
		out.PerSecond, out.Basis = allowance, "given"
	} else {
		out.infer(classified)
	}
	if out.Basis == "unknown" {
		out.Above.P50MS, out.Above.P99MS, out.Within.P50MS, out.Within.P99MS = -1, -1, -1, -1
		return out
	}
	var above, within answering
	for _, m := range moments {
		switch {
		case m.admitted == 0 && m.responses.count() == 0:
		case m.rate(seconds) > out.PerSecond:
			out.Above.add(m, &above)
		default:
			out.Within.add(m, &within)
		}
	}
	all := out.Above.Moments + out.Within.Moments
	out.Above.finish(&above, all)
	out.Within.finish(&within, all)
	return out
}

// classify finds the strained ones among the moments that have enough answers, which it
// returns in order of their rates.
func (s *SafeRate) classify(moments []*moment) []*moment {
	var classified []*moment
	var p99s []float64
	for _, m := range moments {
		if m.responses.times.total() >= SafeAnswers {
			m.p99 = m.responses.percentileMS(99)
			classified, p99s = append(classified, m), append(p99s, m.p99)
		}
	}
	if s.Classified = int64(len(classified)); s.Classified == 0 {
		return nil
	}
	slices.Sort(p99s)
	s.UsualP99MS = p99s[(len(p99s)-1)/2]
	for _, m := range classified {
		if m.strained = float64(m.responses.serverError) >= SafeErrors*float64(m.responses.count()) || m.p99 >= SafeSlower*s.UsualP99MS; m.strained {
			s.Strained++
		}
	}
	slices.SortFunc(classified, func(a, b *moment) int { return cmp.Compare(a.admitted, b.admitted) })
	return classified
}

// infer finds the rate that tells strained moments best from others: of those at which
// there were moments the one with the largest separation, of several the lowest.
//
// Source: W. J. Youden, "Index for rating diagnostic tests", Cancer 3, 1950.
func (s *SafeRate) infer(classified []*moment) {
	s.Basis = "unknown"
	calm := s.Classified - s.Strained
	switch {
	case s.Classified < SafeMoments:
		s.Reason = "not enough data: " + strconv.FormatInt(s.Classified, 10) + " moments of " + strconv.FormatInt(s.StepS, 10) + " s with " + strconv.Itoa(SafeAnswers) +
			" timed answers or more, " + strconv.Itoa(SafeMoments) + " are needed"
		return
	case calm == 0:
		s.Reason = "the upstream was strained in all " + strconv.FormatInt(s.Classified, 10) + " moments"
		return
	case s.Strained == 0:
		s.Basis, s.PerSecond, s.Separation = "at_least", classified[len(classified)-1].rate(s.StepS), 1
		return
	}
	// The separation times how many pairs there are of a strained moment and another, so
	// that equal ones are.
	pairs := s.Strained * calm
	best, rate := int64(-1), 0.0
	left, kept := s.Strained, int64(0)
	for i, m := range classified {
		if m.strained {
			left--
		} else {
			kept++
		}
		if i+1 < len(classified) && classified[i+1].admitted == m.admitted {
			continue
		}
		if j := left*calm + kept*s.Strained - pairs; j > best {
			best, rate = j, m.rate(s.StepS)
		}
	}
	s.Separation = float64(max(best, 0)) / float64(pairs)
	if s.Separation < SafeSeparation {
		s.Reason = "the upstream was strained in " + strconv.FormatInt(s.Strained, 10) + " of " + strconv.FormatInt(s.Classified, 10) +
			" moments, at rates at which it was not in others: that does not follow the rate"
		return
	}
	s.Basis, s.PerSecond = "inferred", rate
}

func (p *SafePart) add(m *moment, all *answering) {
	p.Moments++
	p.Strained += bitOf(m.strained)
	all.join(&m.responses)
}

func (p *SafePart) finish(a *answering, moments int64) {
	p.Share = ratio(p.Moments, moments)
	p.Answers, p.ServerErrors, p.ServerErrorShare = a.count(), a.serverError, ratio(a.serverError, a.count())
	p.P50MS, p.P99MS = a.percentileMS(50), a.percentileMS(99)
}
