package limits

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
)

// Unreachable is the word for a request that got no answer, beside the statuses of HTTP
// from MinStatus to MaxStatus.
const (
	Unreachable          = "unreachable"
	MinStatus, MaxStatus = 100, 599
)

// describeCodes writes set as it can be read: "401, 5xx, unreachable".
func describeCodes(set *weir.Codes) string {
	var parts []string
	for code := MinStatus; code <= MaxStatus; code++ {
		if !set.Has(code) {
			continue
		}
		// A run is cut at the hundreds, so that whole classes show.
		last, class := code, code-code%100+99
		for last < class && set.Has(last+1) {
			last++
		}
		switch {
		case last-code == 99:
			parts = append(parts, fmt.Sprintf("%dxx", code/100))
		case last == code:
			parts = append(parts, strconv.Itoa(code))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", code, last))
		}
		code = last
	}
	if set.Has(weir.NoAnswer) {
		parts = append(parts, Unreachable)
	}
	return strings.Join(parts, ", ")
}
