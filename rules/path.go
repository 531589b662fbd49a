package rules

import (
	"strconv"
	"strings"
)

// join puts a step behind a path.
func join(path, step string) string {
	if path == "" || step == "" {
		return path + step
	}
	return path + "/" + step
}

// pathStep is the name of a descriptor in a path: key, or key=value. Two
// different descriptors have different names.
func pathStep(key, value string) string {
	if value == "" {
		return plainWord(key)
	}
	return plainWord(key) + "=" + plainWord(value)
}

// plainWord quotes what would make a path ambiguous.
func plainWord(s string) string {
	if s == "" || strings.ContainsAny(s, "/=#[]\"\\ ") || strconv.Quote(s) != `"`+s+`"` {
		return strconv.Quote(s)
	}
	return s
}
