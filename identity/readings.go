package identity

import (
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// A value that is there several times is read in several ways: by the first, the
// last, all of them. A limit on it is charged for each, so that whichever the
// upstream takes has counted.

// maxReadings bounds how many descriptors one makes.
const maxReadings = 16

// appendReadings appends to dst the values of s, beside first, that some readers
// find: of further lines, cookies and parameters of the name, and of names that
// are one to servers that hand them on as variables.
func (s *source) appendReadings(dst []string, c *Caller, first string) []string {
	from := len(dst)
	add := func(v string) {
		if v == "" {
			return
		}
		if v = c.text.spell(v, s.fold); v != first && !slices.Contains(dst[from:], v) {
			dst = append(dst, v)
		}
	}
	switch s.kind {
	case fromHeader:
		for key, lines := range c.f.Header {
			if key == s.name && len(lines) < 2 || key != s.name && !SameField(key, s.name) {
				continue
			}
			for _, line := range lines {
				add(trimSpace(line))
			}
		}
	case fromCookie:
		for _, line := range c.f.Header["Cookie"] {
			for line != "" {
				var pair string
				pair, line, _ = strings.Cut(line, ";")
				for more := pair; more != ""; {
					n, v, _ := strings.Cut(more, "=")
					if _, more, _ = strings.Cut(more, ","); !sameName(trimSpace(n), s.name, false) {
						continue
					}
					for _, v := range [2]string{v, upTo(v, ',')} {
						v = strings.Trim(trimSpace(v), `"`)
						add(v)
						if escapesNeedlessly(v) {
							add(c.text.unescapeSegment(v))
						}
					}
				}
			}
		}
	case fromQuery:
		for rest := c.f.Query; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, "&")
			for more := pair; more != ""; {
				n, v, _ := strings.Cut(more, "=")
				if _, more, _ = strings.Cut(more, ";"); sameName(n, s.name, false) {
					add(c.text.unescape(v))
					add(c.text.unescape(upTo(v, ';')))
				}
			}
		}
	}
	return dst
}

// upTo returns s up to a byte.
func upTo(s string, end byte) string {
	if i := strings.IndexByte(s, end); i >= 0 {
		return s[:i]
	}
	return s
}

// appendDescriptors appends the descriptors of d for the entries that the caller
// has from at on: one, and one for each other mixture of what its entries may be
// read as; others are those of entry j from ends[j-1] up to ends[j] of c.others.
func (d *planned) appendDescriptors(req *weir.Request, c *Caller, at int, ends []int) error {
	base := c.entries[at:len(c.entries):len(c.entries)]
	if len(c.others) == 0 && d.repeats == nil {
		req.Descriptors = append(req.Descriptors, weir.Descriptor{Entries: base, Cost: d.cost})
		return nil
	}
	var chosen [maxEntries]int // 0 is the entry as it is
	entries := base
	for made := 0; ; made++ {
		if made == maxReadings {
			return errReadings
		}
		if d.repeats == nil || !d.repeats(entries) {
			req.Descriptors = append(req.Descriptors, weir.Descriptor{Entries: entries, Cost: d.cost})
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
