package weir

import (
	"context"
	"fmt"
	"time"
)

// Measure is what a limit counts of a request.
type Measure uint8

const (
	// MeasureRequest: the cost that the request states.
	MeasureRequest Measure = iota
	// MeasureBytes: the bytes of the answer's body.
	MeasureBytes
	// MeasureHeader: the number that a header field of the answer states.
	MeasureHeader
)

// NoAnswer is the code of a request that was let through and got no answer: the
// upstream could not be reached, broke off, or took too long.
const NoAnswer = 0

// ClientGone is the code that observers are told of a request whose client hung up
// before it was answered: nginx has it in its logs.
const ClientGone = 499

// MaxCode is the largest code of a [Result].
const MaxCode = 639

// Codes is a set of codes, NoAnswer to MaxCode. The zero Codes is empty.
type Codes [(MaxCode + 1) / 64]uint64

// Add adds the codes from first to last. Codes out of range are left out.
func (c *Codes) Add(first, last int) {
	for code := max(first, 0); code <= min(last, MaxCode); code++ {
		c[code/64] |= 1 << (code % 64)
	}
}

// Has reports whether code is in the set.
func (c *Codes) Has(code int) bool {
	return code >= 0 && code <= MaxCode && c[code/64]&(1<<(code%64)) != 0
}

// Empty reports whether no code is in the set.
func (c *Codes) Empty() bool { return *c == Codes{} }

// Adjustment says what becomes of a request's charge once its answer is known.
// The charge is made before the request is let through and adjusted after, so
// that however many requests are under way at once, no more pass than the limit
// allows. Front ends that see no answer leave the charge as it is.
type Adjustment struct {
	// CountOn are the codes that count; what was charged for a request of
	// another code is given back. Empty means all.
	CountOn Codes
	// RefundOn are codes that do not count, though CountOn has them.
	RefundOn Codes
	// Measure is what is counted. What is charged before the answer is then an
	// estimate, and the difference is charged, or given back, after it; charged
	// whether it is there or not.
	Measure Measure
	// Header is the field's name for MeasureHeader.
	Header string
	// Per is how many bytes make a unit for MeasureBytes; a part counts whole.
	// Zero means 1.
	Per int64
}

func (s *Adjustment) check(l *Limit) error {
	switch t := traitsOf(l.Algorithm); {
	case s == nil:
		return nil
	case t&Leases != 0:
		return fmt.Errorf("limit %q: a concurrency limit ends with its request: it cannot be adjusted by the response", l.Name)
	case t&Sketches != 0:
		return fmt.Errorf("limit %q: an approximate limit gives nothing back: it cannot be adjusted by the response", l.Name)
	case t&Shapes != 0:
		return fmt.Errorf("limit %q: a queue has made its requests wait already: it cannot be adjusted by the response", l.Name)
	case s.Per < 0 || s.Per > MaxCost:
		return fmt.Errorf("limit %q: bytes per unit %d must be between 1 and 2^53", l.Name, s.Per)
	case s.Measure == MeasureHeader && s.Header == "":
		return fmt.Errorf("limit %q: no name of the header field that states the cost", l.Name)
	}
	return nil
}

// Result is how a request that was let through ended.
type Result struct {
	// Code is the answer's status, or NoAnswer.
	Code int
	// Duration is from when the request was let through to the end of its answer.
	// Zero means that it was not measured.
	Duration time.Duration
	// Bytes is the length of the answer's body.
	Bytes int64
	// Number returns the number in a header field of the answer, false when
	// there is none. Nil means no fields.
	Number func(field string) (int64, bool)
}

// cost returns what the request that was charged spent costs after all.
func (s *Adjustment) cost(res *Result, spent int64) int64 {
	if !s.CountOn.Empty() && !s.CountOn.Has(res.Code) || s.RefundOn.Has(res.Code) {
		return 0
	}
	switch s.Measure {
	case MeasureBytes:
		per := max(s.Per, 1)
		n := max(res.Bytes, 0)
		units := n / per
		if n%per > 0 {
			units++
		}
		return min(units, MaxCost)
	case MeasureHeader:
		if res.Number == nil {
			return spent
		}
		// What an upstream does not say, or says wrongly, changes nothing.
		if n, ok := res.Number(s.Header); ok && n >= 0 {
			return min(n, MaxCost)
		}
	}
	return spent
}

// adjustment returns by what o is settled, nil for none. A pool is adjusted by the
// limit that borrowed from it.
func (o *Op) adjustment() *Adjustment {
	if !o.Charged || o.Verb == Refund || o.Role == Ban {
		return nil
	}
	return o.Written().Adjustment
}

// NeedsResult reports whether the last decision charged a limit that is to be
// told how the request ended, see [Limiter.Adjust].
func (r *Request) NeedsResult() bool {
	for i := range r.ops {
		if r.ops[i].adjustment() != nil {
			return true
		}
	}
	return false
}

// Adjust tells the limits that the last decision on r charged how the request
// ended: what does not count is given back, and what it cost beyond the
// estimate is charged. It does nothing where no limit has a Adjustment. Call it
// once.
func (l *Limiter) Adjust(ctx context.Context, r *Request, res Result) error {
	var few [8]Op
	ops := few[:0]
	for i := range r.ops {
		o := &r.ops[i]
		s := o.adjustment()
		if s == nil {
			continue
		}
		switch cost := s.cost(&res, o.Cost); {
		case cost < o.Cost:
			ops = append(ops, o.UndoRest(o.Cost-cost))
		case cost > o.Cost:
			ops = append(ops, Op{Key: o.Key, Limit: o.Limit, Cost: cost - o.Cost, Role: Always, Verb: Force})
		}
	}
	if len(ops) == 0 {
		return nil
	}
	return l.store.Take(ctx, ops)
}
