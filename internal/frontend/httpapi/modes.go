package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/spell"
	"github.com/weirlimit/weir/limits"
)

// noMode takes an operator's mode back.
const noMode = "none"

// modeWords are the modes that can be asked for.
var modeWords = []string{string(overlay.Shadow), string(overlay.Enforced), string(overlay.Off), noMode}

// maxRule bounds the words that name a rule, in bytes.
const maxRule = 8 << 10

// modeQuery is the body of POST /v1/admin/mode.
type modeQuery struct {
	overlay.Subject
	mode, reason     string
	percent, seconds int64
}

// modes changes the modes of limits, and answers how they stand.
type modes struct {
	responder *responder
	overlay   *overlay.Overlay
	operators *operators
	domain    string // where none is named
}

func (m *modes) routes() routes {
	return routes{
		"/v1/admin/mode":  {"POST": m.responder.answers(maxSmallBody, m.setMode)},
		"/v1/admin/modes": {"GET": m.responder.sendsValue(m.listModes)},
	}
}

// readQuery reads the body of POST /v1/admin/mode.
func (m *modes) readQuery(r *reader) modeQuery {
	q := modeQuery{Subject: overlay.Subject{Domain: m.domain}}
	readFields(r, "domain, rule, limit, mode, percent, seconds and reason", []field{
		{name: "domain", text: &q.Domain, least: 1, most: maxDomain}, {name: "rule", text: &q.Rule, least: 1, most: maxRule},
		{name: "limit", text: &q.Limit, least: 1, most: maxValue}, {name: "mode", text: &q.mode, least: 1, most: maxRate},
		{name: "percent", number: &q.percent, least: 1, most: 100}, {name: "seconds", number: &q.seconds, most: int64(weir.MaxPeriod / time.Second)},
		{name: "reason", text: &q.reason, most: maxReason},
	})
	switch {
	case r.err != nil:
	case q.Rule == "":
		r.err = &inputError{"is missing: the words of a rule, such as client_id, or the name of a limit", "#/rule"}
	case q.mode == "":
		r.err = &inputError{"is missing: one of " + strings.Join(modeWords, ", "), "#/mode"}
	case !slices.Contains(modeWords, q.mode):
		r.err = &inputError{fmt.Sprintf("%q is none of %s%s", q.mode, strings.Join(modeWords, ", "), spell.Hint(q.mode, modeWords)), "#/mode"}
	case q.percent != 0 && q.mode != string(overlay.Enforced):
		r.err = &inputError{"is for the mode enforce, not for " + q.mode, "#/percent"}
	case q.seconds != 0 && q.mode == noMode:
		r.err = &inputError{"none goes alone: leave seconds out", "#/seconds"}
	}
	return q
}

// modeAnswer is the answer of POST /v1/admin/mode and GET /v1/admin/modes.
type modeAnswer struct {
	// Limits are those that are meant, as they stand.
	Limits []overlay.LimitMode `json:"limits"`
	// Waiting are modes of limits that the rules do not have.
	Waiting []overlay.ModeView `json:"pending"`
	// YAML is a snippet for a rules file to start from, empty where a mode was taken back; of a
	// change alone.
	YAML *string `json:"yaml,omitempty"`
}

// viewLimits returns how limits stand.
func (m *modes) viewLimits(of []*limits.Limit) modeAnswer {
	out := modeAnswer{Limits: []overlay.LimitMode{}, Waiting: []overlay.ModeView{}}
	for _, v := range m.overlay.Modes.Views() {
		if v.Rules == nil {
			out.Waiting = append(out.Waiting, v)
		}
	}
	at := map[limits.Name]int{}
	for _, p := range of {
		key := limits.Name{Domain: p.Rule.Domain, Rule: p.RuleName(), Limit: p.Limit.Name}
		i, isThere := at[key] // a limit in words counts addresses and clients apart
		if !isThere {
			i, at[key] = len(out.Limits), len(out.Limits)
			by := overlay.SettingOf(p.Limit)
			l := overlay.LimitMode{Name: key, Mode: by.Mode, Percent: by.Percent, Rules: by.String(),
				Changed: m.overlay.Modes.ViewOfLimit(p.Limit), Counts: map[string]uint64{}}
			if l.Changed != nil {
				l.Mode, l.Percent = l.Changed.Mode, 0
				if l.Changed.Percent != nil {
					l.Percent = *l.Changed.Percent
				}
			}
			out.Limits = append(out.Limits, l)
		}
		for o := weir.Allowed; o < weir.NumOutcomes; o++ {
			out.Limits[i].Counts[o.String()] += p.Limit.Counters().Load(o)
		}
	}
	return out
}

// setMode answers POST /v1/admin/mode.
func (m *modes) setMode(c *call, r *http.Request) (err error) {
	q := m.readQuery(&c.reader)
	if c.reader.err != nil {
		return c.reader.err
	}
	chosen, fault := chooseLimits(m.overlay.Modes.Limits(), q.Domain, q.Rule, q.Limit)
	who := m.operators.author(r, q.reason)
	switch {
	case q.mode == noMode:
		// Also of a limit that the rules do not have any more.
		var n int
		n, err = m.overlay.Modes.Clear(r.Context(), func(s *overlay.Entry) bool {
			return s.Domain == q.Domain && (s.Rule == q.Rule || s.Limit == q.Rule) && (q.Limit == "" || s.Limit == q.Limit)
		}, who)
		if err == nil && n == 0 && fault != nil {
			err = fault
		}
	case fault != nil:
		err = fault
	default:
		s := overlay.Setting{Mode: overlay.Mode(strings.Clone(q.mode))}
		if s.Mode == overlay.Enforced {
			s.Percent = cmp.Or(q.percent, 100)
		}
		err = m.overlay.Modes.Set(r.Context(), chosen, s, time.Duration(q.seconds)*time.Second, who)
	}
	if err != nil {
		return err
	}
	out := m.viewLimits(chosen)
	var changed []overlay.ModeView
	for _, l := range out.Limits {
		if l.Changed != nil {
			changed = append(changed, *l.Changed)
		}
	}
	out.YAML = new(overlay.ModeSnippet(changed))
	c.out, err = encodeJSON(out)
	return err
}

// chooseLimits returns the limits that words mean: those of a rule, or those of a
// name; limit chooses one of several.
func chooseLimits(all []*limits.Limit, domain, rule, limit string) ([]*limits.Limit, *inputError) {
	var domains, rules, names []string
	var chosen []*limits.Limit
	add := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	byRule := slices.ContainsFunc(all, func(l *limits.Limit) bool { return l.Rule.Domain == domain && l.RuleName() == rule })
	for _, l := range all {
		add(&domains, l.Rule.Domain)
		if l.Rule.Domain != domain {
			continue
		}
		add(&rules, l.RuleName())
		add(&rules, l.Limit.Name)
		if l.RuleName() != rule && (byRule || l.Limit.Name != rule) {
			continue
		}
		add(&names, l.Limit.Name)
		if limit == "" || l.Limit.Name == limit {
			chosen = append(chosen, l)
		}
	}
	switch {
	case len(chosen) > 0:
		var of []string
		for _, l := range chosen {
			add(&of, l.RuleName())
		}
		if len(of) > 1 {
			return nil, &inputError{fmt.Sprintf("limits of several rules are called %q%s", rule, suggestKnown("", of)), "#/rule"}
		}
		return chosen, nil
	case !slices.Contains(domains, domain):
		return nil, &inputError{fmt.Sprintf("there are no limits in a domain %q%s", domain, suggestKnown(domain, domains)), "#/domain"}
	case len(names) == 0:
		return nil, &inputError{fmt.Sprintf("there is no rule or limit %q in the domain %q%s", rule, domain, suggestKnown(rule, rules)), "#/rule"}
	}
	return nil, &inputError{fmt.Sprintf("the rule %q has no limit %q%s", rule, limit, suggestKnown(limit, names)), "#/limit"}
}

// suggestKnown suggests what was meant, or says what there is, as far as that is little.
func suggestKnown(written string, known []string) string {
	if m := spell.Hint(written, known); m != "" {
		return m
	}
	switch {
	case len(known) == 0:
		return ""
	case len(known) > maxListed:
		return fmt.Sprintf("; there are %s and %d more", quoteNames(known[:maxListed]), len(known)-maxListed)
	}
	return "; there are " + quoteNames(known)
}

// listModes answers GET /v1/admin/modes: how limits stand, those of a domain, rule or
// limit if the query says so, and else those that an operator changed.
func (m *modes) listModes(r *http.Request) (any, error) {
	in, fault := readParams(r, "domain", "rule", "limit")
	if fault != nil {
		return nil, fault
	}
	all := m.overlay.Modes.Limits()
	var chosen []*limits.Limit
	switch {
	case in["rule"] != "":
		if chosen, fault = chooseLimits(all, cmp.Or(in["domain"], m.domain), in["rule"], in["limit"]); fault != nil {
			fault.pointer = strings.Replace(fault.pointer, "#/", "?", 1)
			return nil, fault
		}
	default:
		for _, p := range all {
			named := in["domain"] != "" || in["limit"] != ""
			if (in["domain"] == "" || p.Rule.Domain == in["domain"]) && (in["limit"] == "" || p.Limit.Name == in["limit"]) &&
				(named || m.overlay.Modes.ViewOfLimit(p.Limit) != nil) {
				chosen = append(chosen, p)
			}
		}
	}
	return m.viewLimits(chosen), nil
}
