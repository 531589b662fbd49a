package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// DomainOf returns the domain that a front end asks: named, or fallback where none is
// named. That the rules of l say which domains they have and fallback is none of them
// is an error: nobody would be limited.
func DomainOf(l *weir.Limiter, named, fallback string) (string, error) {
	if named != "" {
		return named, nil
	}
	const most = 8
	if r, ok := l.Rules().(interface{ Domains() []string }); ok {
		if all := r.Domains(); len(all) > 0 && !slices.Contains(all, fallback) {
			return "", fmt.Errorf("the rules have no domain %q, which is asked unless Options.Domain names another: set it to one of theirs (%s)",
				fallback, strings.Join(all[:min(len(all), most)], ", "))
		}
	}
	return fallback, nil
}
