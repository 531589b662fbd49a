package checks

import "github.com/weirlimit/weir"

// Unmatcher is implemented by rules that can say why a request is likely not what was
// meant, such as those of package rules.
type Unmatcher interface {
	// Unmatched returns a sentence, empty where the rules have what r asks.
	Unmatched(r *weir.Request) string
}

// Unmatched says why r is likely not what was meant, by the rules of l; empty where it
// is as they have it. Nothing is counted.
func Unmatched(l *weir.Limiter, r *weir.Request) string {
	if u, ok := l.Rules().(Unmatcher); ok {
		return u.Unmatched(r)
	}
	if len(l.Match(r)) == 0 {
		return "the request meets no limit"
	}
	return ""
}
