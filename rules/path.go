package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/limits"
)

// MaxNames is the most bytes that the domain, the path and the name of a limit have
// together: events and metrics carry all three, and an event has a bound.
const MaxNames = 1536

// checkNames reports whether the names of a limit are within MaxNames, and reports a fault if
// they are not.
func (c *compiler) checkNames(at *node, path, name, scope string) bool {
	size := len(c.domain.Name) + len(scope) + len(name)
	if size <= MaxNames {
		return true
	}
	c.addFault(at, path[:min(len(path), maxShown)], "give shorter keys and values, and the limit a name", "the names of the limit (its domain, path and own) have %d bytes together: at most %d fit into its events and metrics", size, MaxNames)
	return false
}

// legible returns s as it is, quoted where it holds what nobody can read.
func legible(s string) string {
	if s == "" || strconv.Quote(s) != `"`+s+`"` {
		return strconv.Quote(s)
	}
	return s
}

// maxShown is how many bytes of a path that is too long are shown.
const maxShown = 80

// joinPath puts a step behind a path.
func joinPath(path, step string) string {
	if path == "" || step == "" {
		return path + step
	}
	return path + "/" + step
}

// pathStep is the name of a descriptor in a path: key, or key=value. Two
// different descriptors have different names.
func pathStep(key, value string) string {
	if value == "" {
		return quoteStep(key)
	}
	return quoteStep(key) + "=" + quoteStep(value)
}

// quoteStep quotes what would make a path ambiguous.
func quoteStep(s string) string {
	if strings.ContainsAny(s, "/=#[]\"\\ ") {
		return strconv.Quote(s)
	}
	return legible(s)
}

// location says where a rule is written to a reader of file.
func location(r *limits.Rule, file string) string {
	if r.File != file {
		return fmt.Sprintf("%s:%d", r.File, r.Line)
	}
	return fmt.Sprintf("line %d", r.Line)
}
