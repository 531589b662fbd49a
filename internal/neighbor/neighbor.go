// Package neighbor names what a store keeps beside a key: on the same server, so that one call
// decides both as a whole.
package neighbor

import "strings"

// sep is no part of the keys that people choose. One that has it lies beside another, and is
// a key of its own all the same.
const sep = "\x1e\x1f"

// Key returns the key of that name beside another.
func Key(key, name string) string { return key + sep + name }

// Cut returns the key beside which a key lies, and its name there, if it lies beside one.
func Cut(key string) (of, name string, ok bool) { return strings.Cut(key, sep) }
