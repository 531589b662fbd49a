package figures

import "strings"

// separator stands in keys and scopes of counters between their parts.
const separator = "\x1f"

// Key writes the key of a counter: its parts side by side, with a backslash before a space
// within one, so that two keys stay two. The lengths that follow several parts are left out.
func Key(key string) string {
	if !strings.Contains(key, separator) {
		return key
	}
	parts := strings.Split(strings.NewReplacer(`\`, `\\`, " ", `\ `).Replace(key), separator)
	if n := len(parts); n%2 == 1 {
		parts = parts[:n/2+1]
	}
	return strings.Join(parts, " ")
}

// Scope writes the scope of a limit: its parts side by side.
func Scope(scope string) string {
	return strings.TrimSpace(strings.ReplaceAll(scope, separator, " "))
}
