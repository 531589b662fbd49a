package replay

// maxPoints is the most points of a series.
const maxPoints = 240

// widths are what a point can cover, in microseconds: a second to a month.
var widths = []int64{1e6, 5e6, 15e6, 60e6, 300e6, 900e6, 3600e6, 4 * 3600e6, 86400e6, 7 * 86400e6, 30 * 86400e6}

// series counts what happened in equal spans of time, which become longer as the
// log does.
type series struct {
	width int // in widths
	from  int64
	// points are counts by what they count.
	points []point
}

// point is one span of a series.
type point struct{ allowed, refused int64 }

// pointAt returns the point of an instant. Time does not go back by more than what the
// clock allows.
func (s *series) pointAt(now int64) *point {
	if len(s.points) == 0 {
		s.from = now - now%widths[s.width]
	}
	i := (now - s.from) / widths[s.width]
	for i >= maxPoints && s.width < len(widths)-1 {
		s.widen()
		i = (now - s.from) / widths[s.width]
	}
	i = max(min(i, maxPoints-1), 0)
	for int64(len(s.points)) <= i {
		s.points = append(s.points, point{})
	}
	return &s.points[i]
}

// widen makes each point longer.
func (s *series) widen() {
	was, start := widths[s.width], s.from
	s.width++
	w := widths[s.width]
	s.from = start - start%w
	old := s.points
	s.points = nil
	for i, p := range old {
		to := (start + int64(i)*was - s.from) / w
		for int64(len(s.points)) <= to {
			s.points = append(s.points, point{})
		}
		s.points[to].allowed += p.allowed
		s.points[to].refused += p.refused
	}
}
