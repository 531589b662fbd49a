// Package checks holds what the front ends share that are asked about limits in
// words of their own: how much may be asked at once, and what the words are.
package checks

import (
	"strings"

	"github.com/weirlimit/weir"
)

// Bounds on what is asked. Lengths are in bytes.
const (
	MaxDomain      = 256
	MaxKey         = 256
	MaxValue       = 1024
	MaxLease       = 256
	MaxDescriptors = 64
	MaxEntries     = 32 // of a descriptor
	MaxPriority    = 1000
	MaxRequests    = 1000 // at once

	MaxIdempotencyKey = 256
)

// IsIdempotencyKey reports whether a key can name a call, or is empty and names none: a header
// of HTTP can hold no other.
func IsIdempotencyKey(key string) bool {
	return len(key) <= MaxIdempotencyKey && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' })
}

// roles are the words for what a limit's answer means for the request.
var roles = [...]string{
	weir.Enforce: "enforce", weir.Soft: "soft", weir.Shadow: "shadow", weir.Own: "own",
	weir.Pool: "pool", weir.Always: "always", weir.Ban: "ban", weir.Deny: "deny",
}

// Role returns the word for what a limit's answer means for the request.
func Role(r weir.Role) string { return roles[r] }
