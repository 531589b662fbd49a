package envoy

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unsafe"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirlimit/weir/internal/compat/envoy/stats"
)

// set is all rules, compiled. It is not changed once it is in use.
type set struct {
	domains map[string]*domain
	// order is that of the files.
	order []*domain
}

type domain struct {
	name string
	root level
}

// level is what can match one entry of a descriptor: nodes by key_value, or by
// key alone. (a, b_c) and (a_b, c) are one word.
type level struct {
	nodes map[string]*node
	// wild are the nodes whose words hold a *, in the order of the files.
	wild  []*node
	order []*node
}

// node is a descriptor of the rules.
type node struct {
	// word is key_value, or the key alone.
	word string
	// parts is the word, split at each *.
	parts []string
	// rule is nil where there is no limit.
	rule *rule
	kids level
	// valueToMetric and share: value_to_metric, share_threshold.
	valueToMetric, share bool
}

// rule is a limit.
type rule struct {
	// key is its name in the statistics: the words of its path.
	key   string
	limit *rlsv3.RateLimitResponse_RateLimit
	stats *stats.RateLimit
	// period is the length of the window in seconds.
	period int64
	// times is how many units that is, if it is more than one.
	times uint32
	// near is the count from which hits are near the limit.
	near                     uint64
	unlimited, shadow, quota bool
	detailed                 bool
	replaces                 []string
	metadata                 *structpb.Struct
}

// periods are the lengths of the units in seconds.
var periods = [...]int64{
	rlsv3.RateLimitResponse_RateLimit_SECOND: 1,
	rlsv3.RateLimitResponse_RateLimit_MINUTE: 60,
	rlsv3.RateLimitResponse_RateLimit_HOUR:   3600,
	rlsv3.RateLimitResponse_RateLimit_DAY:    86400,
	rlsv3.RateLimitResponse_RateLimit_WEEK:   7 * 86400,
	rlsv3.RateLimitResponse_RateLimit_MONTH:  30 * 86400,
	rlsv3.RateLimitResponse_RateLimit_YEAR:   365 * 86400,
}

// periodOf returns the length of a unit, 0 if there is no such unit.
func periodOf(unit int32) int64 {
	if unit < 0 || int(unit) >= len(periods) {
		return 0
	}
	return periods[unit]
}

// nearThreshold returns the count from which hits are near a limit.
func nearThreshold(limit uint32, ratio float32) uint64 {
	return uint64(math.Floor(float64(float32(limit) * ratio)))
}

// findNode returns the node for a word of a request, nil if there is none.
func (l *level) findNode(word []byte) (n *node, wild bool) {
	if n := l.nodes[string(word)]; n != nil {
		return n, false
	}
	for _, n := range l.wild {
		if matches(n.parts, word) {
			return n, true
		}
	}
	return nil, false
}

// matches reports whether a word matches a pattern that was split at each *.
func matches(parts []string, word []byte) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(word) < len(first)+len(last) || string(word[:len(first)]) != first ||
		string(word[len(word)-len(last):]) != last {
		return false
	}
	rest := aliasBytes(word[len(first) : len(word)-len(last)])
	// Taking each part where it comes first leaves most for those behind it.
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}

// aliasBytes returns b as text, which changes when b does.
func aliasBytes(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bindStats gives the rules the statistics of their keys.
func (s *set) bindStats(to *stats.Store) {
	for _, d := range s.order {
		d.root.eachRule(func(r *rule) { r.stats = to.RateLimit(r.key) })
	}
}

// eachRule calls do for every limit, in the order of the files.
func (l *level) eachRule(do func(*rule)) {
	for _, n := range l.order {
		if n.rule != nil {
			do(n.rule)
		}
		n.kids.eachRule(do)
	}
}

// dump writes one line for each limit.
func (s *set) dump(w io.Writer) (err error) {
	for _, d := range s.order {
		d.root.eachRule(func(r *rule) {
			if err == nil {
				_, err = fmt.Fprintf(w, "%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t\n",
					r.key, r.limit.Unit, r.limit.RequestsPerUnit, r.shadow, r.quota)
			}
		})
	}
	return err
}
