package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/spell"
)

// noMode takes an operator's mode back.
const noMode = "none"

// modeWords are the modes that can be asked for.
var modeWords = []string{string(overlay.Shadow), string(overlay.Enforced), string(overlay.Off), noMode}

// maxRule bounds the words that name a rule, in bytes.
const maxRule = 8 << 10

// modeQuery is the body of POST /v1/admin/mode.
type modeQuery struct {
	domain, rule, limit, mode, reason string
	percent, seconds                  int64
}

// modeMembers are all members of the body.
const modeMembers = "domain, rule, limit, mode, percent, seconds and reason"

// readMode reads the body of POST /v1/admin/mode.
func (a *API) readMode(r *reader) modeQuery {
	q := modeQuery{domain: a.opt.Domain}
	var seen uint32
	texts := []struct {
		name string
		to   *string
		most int
	}{
		{"domain", &q.domain, maxDomain}, {"rule", &q.rule, maxRule}, {"limit", &q.limit, maxValue}, {"mode", &q.mode, maxRate},
		{"reason", &q.reason, maxReason},
	}
	numbers := []struct {
		name        string
		to          *int64
		least, most int64
	}{{"percent", &q.percent, 1, 100}, {"seconds", &q.seconds, 0, int64(weir.MaxPeriod / time.Second)}}
	r.object(func(name []byte) {
		for i, m := range texts {
			if m.name == string(name) {
				if r.once(&seen, uint(i)); !r.null() {
					*m.to = strings.Clone(r.str(1, m.most))
				}
				return
			}
		}
		for i, m := range numbers {
			if m.name == string(name) {
				if r.once(&seen, uint(len(texts)+i)); !r.null() {
					*m.to = r.integer(m.least, m.most)
				}
				return
			}
		}
		r.unknown(modeMembers)
	})
	r.end()
	fault := func(pointer, detail string) {
		if r.err == nil {
			r.err = &inputError{detail, pointer}
		}
	}
	switch {
	case r.err != nil:
	case q.rule == "":
		fault("#/rule", "is missing: the words of a rule, such as client_id, or the name of a limit")
	case q.mode == "":
		fault("#/mode", "is missing: one of "+strings.Join(modeWords, ", "))
	case !slices.Contains(modeWords, q.mode):
		fault("#/mode", fmt.Sprintf("%q is none of %s%s", q.mode, strings.Join(modeWords, ", "), spell.Hint(q.mode, modeWords)))
	case strings.TrimSpace(q.reason) == "":
		fault("#/reason", "is missing: say why, for whoever looks after this later")
	case q.percent != 0 && q.mode != string(overlay.Enforced):
		fault("#/percent", "is for the mode enforce, not for "+q.mode)
	case q.seconds != 0 && q.mode == noMode:
		fault("#/seconds", "none goes alone: leave seconds out")
	}
	return q
}

// modeAnswer is the answer of POST /v1/admin/mode and GET /v1/admin/modes.
type modeAnswer struct {
	// Limits are those that are meant, as they stand.
	Limits []modeLimit `json:"limits"`
	// Waiting are modes of limits that the rules do not have.
	Waiting []overlay.SwitchView `json:"pending"`
	// YAML is what the change amounts to in a rules file; of a change alone.
	YAML *string `json:"yaml,omitempty"`
}

// modeLimit is how one limit stands.
type modeLimit struct {
	Domain string `json:"domain"`
	Rule   string `json:"rule"`
	Limit  string `json:"limit"`
	// Mode in force, and for how many percent of the keys it refuses.
	Mode    overlay.Mode `json:"mode"`
	Percent int64        `json:"percent"`
	// Rules is the mode by the rules in a word.
	Rules string `json:"rules"`
	// Changed is what an operator made of it, nil for nothing.
	Changed *overlay.SwitchView `json:"changed"`
	// Counts are the decisions of this node under the limit since its start.
	Counts map[string]uint64 `json:"counts"`
}

// stand tells how places stand.
func (a *API) stand(limits []overlay.LimitRef) modeAnswer {
	out := modeAnswer{Limits: []modeLimit{}, Waiting: []overlay.SwitchView{}}
	type id struct{ domain, rule, limit string }
	changed := map[id]*overlay.SwitchView{}
	for _, v := range a.opt.Overlay.SwitchViews() {
		if v.Rules == nil {
			out.Waiting = append(out.Waiting, v)
			continue
		}
		changed[id{v.Domain, v.Rule, v.Limit}] = &v
	}
	at := map[id]int{}
	for _, p := range limits {
		key := id{p.Domain, p.Rule, p.Limit.Name}
		if i, ok := at[key]; ok { // a limit in words counts addresses and clients apart
			for o := weir.Allowed; o < weir.NumOutcomes; o++ {
				out.Limits[i].Counts[o.String()] += p.Limit.Counters().Load(o)
			}
			continue
		}
		at[key] = len(out.Limits)
		by := overlay.SettingOf(p.Limit)
		m := modeLimit{Domain: p.Domain, Rule: p.Rule, Limit: p.Limit.Name, Mode: by.Mode, Percent: by.Percent, Rules: by.String(),
			Changed: changed[key], Counts: map[string]uint64{}}
		if m.Changed != nil {
			m.Mode, m.Percent = m.Changed.Mode, 0
			if m.Changed.Percent != nil {
				m.Percent = *m.Changed.Percent
			}
		}
		for o := weir.Allowed; o < weir.NumOutcomes; o++ {
			m.Counts[o.String()] = p.Limit.Counters().Load(o)
		}
		out.Limits = append(out.Limits, m)
	}
	return out
}

// setMode answers POST /v1/admin/mode.
func (a *API) setMode(c *call, w http.ResponseWriter, r *http.Request) error {
	q := a.readMode(&c.reader)
	if c.reader.err != nil {
		return c.reader.err
	}
	limits, fault := chooseLimits(a.opt.Overlay.LimitRefs(), q.domain, q.rule, q.limit)
	who := overlay.Author{By: a.who(r), Reason: q.reason}
	var err error
	switch {
	case q.mode == noMode:
		// Also of a limit that the rules do not have any more.
		var n int
		n, err = a.opt.Overlay.ClearMode(r.Context(), func(s *overlay.Entry) bool {
			return s.Domain == q.domain && (s.Rule == q.rule || s.Limit == q.rule) && (q.limit == "" || s.Limit == q.limit)
		}, who)
		if err == nil && n == 0 && fault != nil {
			err = fault
		}
	case fault != nil:
		err = fault
	default:
		s := overlay.Setting{Mode: overlay.Mode(q.mode)}
		if s.Mode == overlay.Enforced {
			if s.Percent = q.percent; s.Percent == 0 {
				s.Percent = 100
			}
		}
		err = a.opt.Overlay.SetMode(r.Context(), limits, s, time.Duration(q.seconds)*time.Second, who)
	}
	if err != nil {
		return err
	}
	out := a.stand(limits)
	out.YAML = new(string)
	for i, m := range out.Limits {
		if m.Changed != nil && (i == 0 || m.Changed.YAML != *out.YAML) {
			*out.YAML += m.Changed.YAML
		}
	}
	a.sendValue(w, out)
	return nil
}

// chooseLimits returns the limits that words mean: those of a rule, or those of a
// name; limit chooses one of several.
func chooseLimits(all []overlay.LimitRef, domain, rule, limit string) ([]overlay.LimitRef, *inputError) {
	var domains, rules, limits []string
	var chosen []overlay.LimitRef
	add := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	byRule := slices.ContainsFunc(all, func(p overlay.LimitRef) bool { return p.Domain == domain && p.Rule == rule })
	for _, p := range all {
		add(&domains, p.Domain)
		if p.Domain != domain {
			continue
		}
		add(&rules, p.Rule)
		add(&rules, p.Limit.Name)
		if p.Rule != rule && (byRule || p.Limit.Name != rule) {
			continue
		}
		add(&limits, p.Limit.Name)
		if limit == "" || p.Limit.Name == limit {
			chosen = append(chosen, p)
		}
	}
	switch {
	case len(chosen) > 0:
		var of []string
		for _, p := range chosen {
			add(&of, p.Rule)
		}
		if len(of) > 1 {
			return nil, &inputError{fmt.Sprintf("limits of several rules are called %q%s", rule, some("", of)), "#/rule"}
		}
		return chosen, nil
	case !slices.Contains(domains, domain):
		return nil, &inputError{fmt.Sprintf("there are no limits in a domain %q%s", domain, some(domain, domains)), "#/domain"}
	case len(limits) == 0:
		return nil, &inputError{fmt.Sprintf("there is no rule or limit %q in the domain %q%s", rule, domain, some(rule, rules)), "#/rule"}
	}
	return nil, &inputError{fmt.Sprintf("the rule %q has no limit %q%s", rule, limit, some(limit, limits)), "#/limit"}
}

// some suggests what was meant, or says what there is, if that is little.
func some(written string, known []string) string {
	if m := spell.Hint(written, known); m != "" {
		return m
	}
	if len(known) == 0 || len(known) > 8 {
		return ""
	}
	all := make([]string, len(known))
	for i, k := range known {
		all[i] = strconv.Quote(k)
	}
	return "; there are " + strings.Join(all, ", ")
}

// modes answers GET /v1/admin/modes: how limits stand, those of a domain, rule or
// limit if the query says so, and else those that an operator changed.
func (a *API) modes(w http.ResponseWriter, r *http.Request) {
	in, fault := readParams(r, "domain", "rule", "limit")
	if fault != nil {
		badInput(w, fault)
		return
	}
	all := a.opt.Overlay.LimitRefs()
	var limits []overlay.LimitRef
	switch {
	case in["rule"] != "":
		if limits, fault = chooseLimits(all, cmp.Or(in["domain"], a.opt.Domain), in["rule"], in["limit"]); fault != nil {
			fault.pointer = strings.TrimPrefix(fault.pointer, "#/")
			badInput(w, fault)
			return
		}
	default:
		for _, p := range all {
			named := in["domain"] != "" || in["limit"] != ""
			if (in["domain"] == "" || p.Domain == in["domain"]) && (in["limit"] == "" || p.Limit.Name == in["limit"]) &&
				(named || a.opt.Overlay.SwitchOf(p.Limit) != nil) {
				limits = append(limits, p)
			}
		}
	}
	a.sendValue(w, a.stand(limits))
}

// readParams reads the query of a GET: known names, each once, of bounded length.
func readParams(r *http.Request, known ...string) (map[string]string, *inputError) {
	out := map[string]string{}
	if len(r.URL.RawQuery) > maxSmallBody {
		return nil, &inputError{"is too long", "query"}
	}
	for name, values := range r.URL.Query() {
		switch {
		case !slices.Contains(known, name):
			return nil, &inputError{"unknown parameter" + spell.Hint(name, known) + "; known are " + strings.Join(known, ", "), name}
		case len(values) != 1:
			return nil, &inputError{"is there twice", name}
		case len(values[0]) > maxRule:
			return nil, &inputError{"must have at most " + strconv.Itoa(maxRule) + " bytes", name}
		}
		out[name] = values[0]
	}
	return out, nil
}

// Bounds of GET /v1/admin/audit.
const usualChanges = 100

// audit answers GET /v1/admin/audit: what operators changed, the latest first.
func (a *API) audit(w http.ResponseWriter, r *http.Request) {
	in, fault := readParams(r, "limit", "before")
	limit, before := int64(usualChanges), int64(0)
	number := func(name string, to *int64, most int64) {
		if in[name] == "" || fault != nil {
			return
		}
		n, err := strconv.ParseInt(in[name], 10, 64)
		if err != nil || n < 1 || n > most {
			fault = &inputError{fmt.Sprintf("must be a whole number from 1 to %d", most), name}
		}
		*to = n
	}
	number("limit", &limit, overlay.MaxChanges)
	number("before", &before, weir.MaxCost)
	if fault != nil {
		badInput(w, fault)
		return
	}
	changes, err := a.opt.Overlay.Changes(r.Context(), int(limit)+1, before)
	if err != nil {
		a.fail(w, err)
		return
	}
	out := struct {
		Changes []overlay.ChangeView `json:"changes"`
		// Before asks for those that are longer ago; nil when there are none.
		Before *int64 `json:"before"`
	}{Changes: []overlay.ChangeView{}}
	for i := range changes {
		if changes[i].Number > 0 {
			limit--
		}
		if limit < 0 {
			out.Before = out.Changes[len(out.Changes)-1].Number
			break
		}
		out.Changes = append(out.Changes, changes[i].View())
	}
	a.sendValue(w, out)
}
