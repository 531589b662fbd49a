package rules

import (
	"cmp"
	"fmt"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/bytesize"
	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/limits"
)

// settlement sets what becomes of a charge once the answer is known.
func (b *builder) settlement(w *weir.Limit) {
	s := &b.s
	own := slices.ContainsFunc([]string{"count_on", "refund_on", "cost_from"}, func(name string) bool {
		_, own := findSetting(b.layers, name)
		return own
	})
	if !own && w.Algorithm.Traits()&(weir.Leases|weir.Shapes|weir.Sketches) != 0 {
		return // what the domain says is for the others
	}
	var set weir.Adjustment
	if s.CountOn != nil && len(s.CountOn) == 0 {
		b.addSettingFault("count_on", "leave it out, or name some: [401, 4xx]", "count_on names no status, so nothing would count")
	}
	set.CountOn, set.RefundOn = b.readCodes("count_on", s.CountOn), b.readCodes("refund_on", s.RefundOn)
	if s.CostFrom != nil {
		b.costFrom(&set, *s.CostFrom)
	}
	if set.Per > 0 && s.CostPer != nil {
		set.Per = cmp.Or(int64(*s.CostPer), 1)
	} else if _, own := findSetting(b.layers, "cost_per"); own {
		b.addSettingFault("cost_per", "add cost_from: response_bytes, or leave it out", "cost_per is for cost_from: response_bytes")
	}
	if set != (weir.Adjustment{}) {
		w.Adjustment = &set
	}
}

// costFrom reads what is counted: "response_bytes" or "response_header:X-Cost".
func (b *builder) costFrom(s *weir.Adjustment, text string) {
	const prefix = "response_header:"
	switch name, header := strings.CutPrefix(text, prefix); {
	case text == "response_bytes":
		s.Per = 1
	case header && isToken(name):
		s.Header = textproto.CanonicalMIMEHeaderKey(name)
	case header:
		b.addSettingFault("cost_from", "write response_header:X-Cost", "cost_from: %q is no name of a header field", name)
	default:
		b.addSettingFault("cost_from", didYouMean(text, []string{"response_bytes", "response_header:X-Cost"}), "unknown cost_from %q", text)
	}
}

// isToken reports whether s can be the name of a header field, RFC 9110 §5.6.2.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// readCodes reads a list of statuses: 401, 4xx, 200-299, unreachable.
func (b *builder) readCodes(setting string, ws words) (set weir.Codes) {
	for _, w := range ws {
		first, last, err := parseCodes(w.text)
		if err != nil {
			b.faults++
			b.addFault(w.node, b.path, "write a status such as 401, a class such as 4xx, a range such as 200-299, or "+limits.Unreachable, "%s: %s", setting, err)
			continue
		}
		set.Add(first, last)
	}
	return set
}

func parseCodes(s string) (first, last int, err error) {
	if s == limits.Unreachable {
		return weir.NoAnswer, weir.NoAnswer, nil
	}
	bad := fmt.Errorf("%q is not a status", s)
	if class, ok := strings.CutSuffix(strings.ToLower(s), "xx"); ok {
		n, err := strconv.Atoi(class)
		if err != nil || len(class) != 1 || n < 1 || n > 5 {
			return 0, 0, bad
		}
		return n * 100, n*100 + 99, nil
	}
	low, high, isRange := strings.Cut(s, "-")
	if !isRange {
		high = low
	}
	first, last = parseStatus(low), parseStatus(high)
	if first < limits.MinStatus || last > limits.MaxStatus || first > last {
		return 0, 0, bad
	}
	return first, last, nil
}

// parseStatus reads a number of three digits; 0 for anything else.
func parseStatus(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || len(s) != 3 {
		return 0
	}
	return n
}

func (s *size) readNode(d *decoder, n *node, name string) {
	text, ok := d.readScalar(n, name, "a number of bytes such as 1KiB")
	if !ok {
		return
	}
	digits, unit := bytesize.CutUnit(text)
	v, err := period.Count(digits)
	if err != nil || v < 1 || v > weir.MaxCost/unit {
		d.addFault(n, d.path, "write it like 1KiB or 1000", "%s: %q is not a number of bytes", name, text)
		v = 1
	}
	*s = size(v * unit)
}
