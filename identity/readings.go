package identity

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir"
)

// A value that is there several times is read in several ways: by the first, the
// last, all of them. A limit on it is charged for each, so that whichever the
// upstream takes has counted. Whatever else the request is charged for is charged as
// often, so that one request stands for no more values than as many would.

// Bounds on one descriptor: for how many values it is charged, and how many descriptors
// these and their spellings make.
const (
	maxValues   = 16
	maxReadings = 4 * maxValues
)

// partialReading is the reading of descriptors that not every reader finds.
const partialReading = math.MaxUint8

// readings collects the values that readers find for a source.
type readings struct {
	c *Caller
	s *source
	// from is where they begin in c.others.
	from int
	// values is how many there are; further spellings of one are none.
	values int
	err    error
}

// addValue adds a value, or a further spelling of one.
func (r *readings) addValue(v string, spelling bool) {
	others := &r.c.others
	if v == "" || len(*others)-r.from > maxReadings { // so many are refused
		return
	}
	if v = r.c.text.spellKey(v, r.s.fold); !slices.Contains((*others)[r.from:], v) {
		*others = append(*others, v)
		if !spelling {
			r.values++
		}
	}
}

// appendReadings appends to c.others the values of s that some readers find: of every
// line, cookie and parameter of the name, and of names that are one to some servers. It
// returns how many values there are.
func (s *source) appendReadings(c *Caller) (values int, err error) {
	r := readings{c: c, s: s, from: len(c.others)}
	switch s.kind {
	case fromHeader:
		r.addValue(headerValue(c.f.Header, s.name), false)
		for key, lines := range c.f.Header {
			if key == s.name && len(lines) < 2 || !SameField(key, s.name) {
				continue
			}
			for _, line := range lines {
				r.addValue(trimSpace(line), false)
			}
			r.addValue(strings.Join(lines, ", "), true)
			r.addValue(strings.Join(lines, ","), true) // as some join them
		}
	case fromCookie:
		for _, line := range c.f.Header["Cookie"] {
			if !eachCookie(line, s.name, r.addCookie) {
				r.err = errCookie
			}
		}
	case fromQuery:
		if !eachParameter(c.f.Query, s.name, r.addParameter) {
			r.err = errQuery
		}
	}
	return r.values, r.err
}

// appendForms appends to c.others the values of s, other than value, for who decodes less of
// the path.
func (s *source) appendForms(c *Caller, value string) {
	from := len(c.others)
	for _, form := range c.forms {
		if form == "" || value == "" {
			continue
		}
		if v := s.valueInPath(c, form); v != value && !slices.Contains(c.others[from:], v) {
			c.others = append(c.others, v)
		}
	}
}

// addParameter adds the value of a parameter.
func (r *readings) addParameter(_, written string) {
	v := r.c.text.unescape(written)
	if !utf8.ValidString(v) || strings.Contains(written, "]=") { // where qs ends a name
		r.err = errQuery
	}
	r.addValue(v, false)
	if v, _, found := strings.Cut(written, ";"); found {
		r.addValue(r.c.text.unescape(v), false)
	}
}

// addCookie adds the value of a cookie. Some readers keep quotes and white space, some
// decode it, and some a plus sign too; Express reads JSON behind j:.
func (r *readings) addCookie(_, written string) {
	v := cookieValue(written)
	// Beside white space some readers keep quotes, and Koa cuts off another character.
	spaced := strings.Contains(written, `"`) && strings.Trim(written, " ") != written
	if spaced || !isCredential(v) {
		r.err = errCookie
	}
	r.addValue(v, false)
	for _, as := range [...]string{v, written} {
		decoded := r.c.text.unescapeSegment(as)
		if strings.HasPrefix(decoded, "j:") || !utf8.ValidString(decoded) {
			r.err = errCookie
		}
		for _, spelling := range [...]string{as, decoded, r.c.text.unescape(as)} {
			if spelling != v {
				r.addValue(spelling, true)
			}
		}
	}
}

// appendDescriptors appends the descriptors of d for the entries that the caller
// has from at on: one, and one for each other mixture of what its entries may be
// read as; others are those of entry j from ends[j-1] up to ends[j] of c.others.
func (d *planned) appendDescriptors(req *weir.Request, c *Caller, at int, reading uint8, ends []int) error {
	base := c.entries[at:len(c.entries):len(c.entries)]
	if len(c.others) == 0 && d.repeats == nil {
		req.Descriptors = append(req.Descriptors, weir.Descriptor{Entries: base, Cost: d.cost, Reading: reading})
		return nil
	}
	if reading == 0 && len(c.others) > 0 {
		reading = partialReading
	}
	var chosen [maxEntries]int // 0 is the entry as it is
	entries := base
	for made := 0; ; made++ {
		if made == maxReadings {
			return errReadings
		}
		if d.repeats == nil || !d.repeats(entries) {
			req.Descriptors = append(req.Descriptors, weir.Descriptor{Entries: entries, Cost: d.cost, Reading: reading})
		}
		j, from := 0, 0
		for ; j < len(base); j++ {
			if chosen[j] < ends[j]-from {
				chosen[j]++
				break
			}
			chosen[j] = 0
			from = ends[j]
		}
		if j == len(base) {
			return nil
		}
		start := len(c.entries)
		from = 0
		for k, e := range base {
			if chosen[k] > 0 {
				e.Value = c.others[from+chosen[k]-1]
			}
			from = ends[k]
			c.entries = append(c.entries, e)
		}
		entries = c.entries[start:len(c.entries):len(c.entries)]
	}
}
