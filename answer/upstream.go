package answer

import (
	"net/http"
	"strings"
)

// verdict is what becomes of the fields of one voice that an answer already
// has, from a limiter further on.
type verdict uint8

const (
	// join: ours are added where they are lists, and set where there are none.
	join verdict = iota
	// keep: theirs stand.
	keep
	// replace: ours stand.
	replace
	// unheard: theirs do not tell how much is left; ours stand, but for a reset
	// that theirs put later.
	unheard
)

// upstreamQuota is what a limiter further on tells: how much is left, and after how
// many microseconds there is more. Both -1 for unknown.
type upstreamQuota struct{ left, until int64 }

// compareQuota compares what h has at fd, which decides for its voice, with ours: what
// leaves the client less stands. So does, of two that leave as much, what makes
// it wait longer.
func (w *Writer) compareQuota(h http.Header, fd field, f *facts) verdict {
	lines := readQuota(h, fd.key)
	switch {
	case len(lines) == 0 && fd.value == remaining:
		return unheard
	case len(lines) == 0, fd.value == stateList && allLists(lines):
		return join
	}
	theirs := upstreamQuota{-1, -1}
	if fd.value == remaining {
		if n, _, ok := leadingNumber(strings.Trim(lines[0], " \t")); ok {
			theirs.left = n
		}
		for _, g := range w.fields {
			if g.voice == fd.voice && g.value == reset {
				theirs.until = firstReset(h[g.key], f.now)
			}
		}
	} else {
		theirs = readUpstreamQuota(lines)
	}
	ours := upstreamQuota{f.policies[0].left, f.microsUntilMore()}
	switch {
	case theirs.left < 0:
		return unheard
	case theirs.left < ours.left || theirs.left == ours.left && theirs.until > ours.until:
		return keep
	}
	return replace
}

// readQuota returns the lines that h has at key, none if all are blank.
func readQuota(h http.Header, key string) []string {
	for _, line := range h[key] {
		if strings.Trim(line, " \t") != "" {
			return h[key]
		}
	}
	return nil
}

// firstReset returns the microseconds that the first of lines says, -1 for
// none that can be read.
func firstReset(lines []string, now int64) int64 {
	if len(lines) > 0 {
		if wait, ok := readReset(lines[0], now); ok {
			return wait
		}
	}
	return -1
}

// letsStand reports whether what h has at fd stands as it is, though we would say
// v.
func (f *facts) letsStand(theirs []string, fd *field, v verdict) bool {
	if len(theirs) == 0 {
		// Whose remainder stands tells the reset that belongs to it.
		return v == keep && (fd.value == reset || fd.value == policyList || fd.value == windowList)
	}
	switch fd.value {
	case retryAfter:
		return firstReset(theirs, f.now) > f.retry*1_000_000
	case reset:
		return v == keep || v == unheard && firstReset(theirs, f.now) > f.microsUntilMore()
	}
	return v == keep
}

// joinsList reports whether ours is added to what h has at fd as a further line of
// a list.
func joinsList(theirs []string, fd *field, v verdict) bool {
	switch fd.value {
	case stateList:
		return v == join
	case policyList:
		return v == join || v == unheard || startsQuoted(theirs)
	case windowList:
		return v == join || v == unheard || !startsQuoted(theirs)
	}
	return false
}

// allLists reports whether all lines are of a list and none of a dictionary,
// whose members are "name=value".
func allLists(lines []string) bool {
	for _, line := range lines {
		line = strings.Trim(line, " \t")
		if end := strings.IndexAny(line, `":(;,=`); end >= 0 && line[end] == '=' {
			return false
		}
	}
	return true
}

// startsQuoted reports whether the first of lines begins with a String, as a list
// has since revision 08.
func startsQuoted(lines []string) bool {
	return len(lines) > 0 && strings.HasPrefix(strings.TrimLeft(lines[0], " \t"), `"`)
}

// readUpstreamQuota reads RateLimit in the syntax of revision 07 or 08, of a list the
// member with the least left. It takes what it finds: a field that is broken
// elsewhere still tells a limit.
func readUpstreamQuota(lines []string) upstreamQuota {
	least := upstreamQuota{-1, -1}
	for _, s := range lines {
		member := upstreamQuota{-1, -1}
		for i := 0; i < len(s); i++ {
			switch s[i] {
			case '"':
				i += stringEnd(s[i:])
			case ',':
				least, member = tighterQuota(least, member), upstreamQuota{-1, -1}
			case '=':
				n, length, ok := leadingNumber(s[i+1:])
				if !ok {
					break
				}
				switch lastWord(s[:i]) {
				case "r":
					member.left = n
				case "t":
					member.until = n * 1_000_000
				case "remaining":
					least.left = n
				case "reset":
					least.until = n * 1_000_000
				}
				i += length
			}
		}
		least = tighterQuota(least, member)
	}
	return least
}

func tighterQuota(a, b upstreamQuota) upstreamQuota {
	if b.left >= 0 && (a.left < 0 || b.left < a.left || b.left == a.left && b.until > a.until) {
		return b
	}
	return a
}

// stringEnd returns the place of the quote that ends the String s, or of its
// last byte.
func stringEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(s) - 1
}

// lastWord returns the letters that s ends in.
func lastWord(s string) string {
	i := len(s)
	for i > 0 && s[i-1] >= 'a' && s[i-1] <= 'z' {
		i--
	}
	return s[i:]
}

// leadingNumber returns the number that s begins with, of at most 12 digits so that
// it can be told in microseconds, and its length. What follows must not make
// another number of it.
func leadingNumber(s string) (n int64, length int, ok bool) {
	const most = 12
	for length < len(s) && s[length] >= '0' && s[length] <= '9' {
		if length == most {
			return 0, 0, false
		}
		n = n*10 + int64(s[length]-'0')
		length++
	}
	return n, length, length > 0 && (length == len(s) || strings.IndexByte(" \t,;", s[length]) >= 0)
}
