package weir

import "time"

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
