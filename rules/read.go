package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/period"
)

func (s *span) readNode(d *decoder, n *node, name string) {
	text, ok := d.readScalar(n, name, "a duration such as 10m")
	if !ok || text == "0" || text == "0s" {
		return
	}
	p, err := ParsePeriod(text)
	if err != nil {
		d.because(n, name, err)
	}
	*s = span(p)
}

func (s *autoSpan) readNode(d *decoder, n *node, name string) {
	if n.text != "auto" {
		(*span)(s).readNode(d, n, name)
	}
}

func (u *unitWord) readNode(d *decoder, n *node, name string) {
	text, ok := d.readScalar(n, name, "a unit such as minute")
	if !ok {
		return
	}
	p, ok := period.Length(text)
	if !ok {
		p, ok = period.Unit(text)
	}
	if !ok {
		p = -1
	}
	*u = unitWord(p)
}

func (p *percent) readNode(d *decoder, n *node, name string) {
	text, ok := d.readScalar(n, name, "a share such as 10%")
	if !ok {
		return
	}
	v, err := parsePercent(text)
	if err != nil {
		d.because(n, name, err)
		v = 1 // so that one fault is not told as two
	}
	*p = percent(v)
}

func (s *share) readNode(d *decoder, n *node, name string) {
	text, ok := d.readScalar(n, name, "a number of units or a share such as 10%")
	if !ok {
		return
	}
	if strings.HasSuffix(text, "%") {
		p, err := parsePercent(text)
		if err == nil && p > 100 {
			err = fmt.Errorf("%q is more than 100%%", text)
		}
		if err != nil {
			d.because(n, name, err)
		}
		s.percent, s.isPercent = p, true
		return
	}
	s.units = d.readInt(n, name)
}

func (r *rateText) readNode(d *decoder, n *node, name string) {
	text, ok := d.readScalar(n, name, "a limit such as 100/minute")
	if !ok {
		return
	}
	v, err := period.ParseRate(text)
	switch {
	case err != nil:
		d.addRateFault(n, name, text, err)
		v = period.Rate{Count: 1, Period: time.Second}
	case v.Count < 0:
		d.addFault(n, d.path, "0 refuses everything, unlimited limits nothing", "%s: %q is less than 0", name, text)
		v.Count = 1
	case v.Count > weir.MaxCost:
		d.addFault(n, d.path, fmt.Sprintf("give at most %d", int64(weir.MaxCost)), "%s: %d is more than can be counted", name, v.Count)
		v.Count = 1
	}
	r.Rate = v
}

// addRateFault reports text that is no rate, with what was meant.
func (d *decoder) addRateFault(n *node, name, text string, err error) {
	if rate, words, hint := afterRate(text); rate != "" {
		d.addFault(n, d.path, fmt.Sprintf("write %s; %s", rate, hint), "%s: %q does not belong here", name, words)
		return
	}
	if meant := period.MeantRate(text); meant != "" {
		d.addFault(n, d.path, "write "+meant, "%s: %q is not a limit", name, text)
		return
	}
	d.because(n, name, err)
}

// afterRate splits a limit as --limit takes it, "100/minute by ip burst 20", into
// its rate and the words behind it, and says where those belong in a file. The rate
// is "" for any other text.
func afterRate(text string) (rate, words, hint string) {
	fields := strings.Fields(text)
	at := slices.IndexFunc(fields, func(s string) bool { return s == "by" || s == "burst" || s == "using" })
	if at < 1 || at == len(fields)-1 {
		return "", "", ""
	}
	rate = strings.Join(fields[:at], " ")
	if _, err := period.ParseRate(rate); err != nil {
		if rate = period.MeantRate(rate); rate == "" {
			return "", "", ""
		}
	}
	var hints []string
	for i, word := range fields[at : len(fields)-1] {
		switch next := fields[at+i+1]; word {
		case "by":
			hints = append(hints, "what is counted is the key of the descriptor")
		case "burst":
			hints = append(hints, "burst: "+next+" is a key of its own")
		case "using":
			hints = append(hints, "algorithm: "+next+" is a key of its own")
		}
	}
	return rate, strings.Join(fields[at:], " "), strings.Join(hints, ", ")
}

func (w *words) readNode(d *decoder, n *node, name string) {
	items := []*node{n}
	if n.kind == list {
		// An empty list is not the same as none: it takes the place of another.
		items, *w = n.items, make(words, 0, len(n.items))
	}
	for _, item := range items {
		if text := d.readText(item, name); text != "" {
			*w = append(*w, word{text, item})
		}
	}
}

func (l *limitSpec) readNode(d *decoder, n *node, name string) {
	if n.kind == list {
		d.addFault(n, d.path, "write limits for several", "%s must be one limit, not a list", name)
		return
	}
	if n.kind != scalar {
		d.fillBlock(n, reflect.ValueOf(l).Elem(), name)
		return
	}
	l.Node = n
	if l.Unlimited = n.text == "unlimited"; !l.Unlimited {
		l.Limit = new(rateText)
		l.Limit.readNode(d, n, name)
	}
}

func (l *limitList) readNode(d *decoder, n *node, name string) {
	items := []*node{n}
	if n.kind == list {
		items = n.items
	}
	for _, item := range items {
		spec := new(limitSpec)
		spec.readNode(d, item, name)
		if spec.Node != nil {
			*l = append(*l, spec)
		}
	}
}

func (r *names) readNode(d *decoder, n *node, name string) {
	if n.kind != list {
		if n.kind != null {
			d.mismatch(n, name, "a list of names")
		}
		return
	}
	for _, item := range n.items {
		text := item.valueOrSelf("name")
		for _, p := range item.pairs {
			if p.name != "name" {
				d.unknown(&p, &fieldSet{names: []string{"name"}})
			}
		}
		if text.kind != scalar || text.text == "" {
			d.addFault(item, d.path, "write - name: the_limit", "replaces has an entry without a name")
			continue
		}
		*r = append(*r, text.text)
	}
}

func (t *tiersSpec) readNode(d *decoder, n *node, name string) {
	for _, p := range n.pairs {
		if p.name != "limits" && p.value.kind == scalar && n.valueOf("limits") == nil && !strings.EqualFold(p.name, "by") {
			if _, err := period.ParseRate(p.value.text); err == nil {
				d.addFault(p.key, d.path, formHint(name, n), "the limit of the tier %q stands beside limits:, not beneath it", clipped(p.name))
				return
			}
		}
	}
	d.fillBlock(n, reflect.ValueOf(t).Elem(), name)
}

func (p *poolSpec) readNode(d *decoder, n *node, name string) {
	if n.kind == scalar && !strings.ContainsAny(n.text, "/ ") {
		p.ref = n.text
		return
	}
	p.limit = new(limitSpec)
	p.limit.readNode(d, n, name)
}

func (c *consistencySpec) readNode(d *decoder, n *node, name string) {
	if n.kind == scalar {
		n = &node{kind: mapping, file: n.file, line: n.line, col: n.col,
			pairs: []pair{{key: n, value: n, name: "mode"}}}
		name = "consistency"
	}
	d.fillBlock(n, reflect.ValueOf(c).Elem(), name)
}

func (m *metadataSpec) readNode(d *decoder, n *node, name string) {
	if n.kind != null && n.kind != mapping {
		d.addFault(n, d.path, "", "bad metadata: it must be a block of keys, not %s", n.kind)
	}
}

func (o *ordered[T]) readNode(d *decoder, n *node, name string) {
	switch n.kind {
	case mapping:
	case null:
		d.addEmptyFault(n, name)
	default:
		d.addFault(n, d.path, blockHint(name), "%s must be a block of keys, not %s", name, n.kind)
	}
	seen := make(map[string]int, len(n.pairs))
	for _, p := range n.pairs {
		if line, ok := seen[p.name]; ok {
			d.addFault(p.key, d.path, "keep one of them", "%s: %q is already in line %d", name, p.name, line)
			continue
		}
		if p.name == "" {
			d.addFault(p.key, d.path, "", "%s: empty key", name)
			continue
		}
		seen[p.name] = p.key.line
		k := keyed[T]{name: p.name, node: p.key}
		d.fillValue(p.value, reflect.ValueOf(&k.value).Elem(), name+" "+p.name)
		*o = append(*o, k)
	}
}
