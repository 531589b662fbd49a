package rules

import "unsafe"

// view returns b as a string without a copy. b must not be changed while the
// string is in use.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
