package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/rules"
)

// ruleSet is all that a node decides by: the limits in words, and the rules
// files where there are any. A request must pass both. Safe for concurrent
// use.
type ruleSet struct {
	words *wordRules
	// live follows the files; nil without --rules.
	live *rules.Live
	log  *slog.Logger
	// overlay is what operators have laid over the rules.
	overlay *overlay.Overlay
	// merged are the KeyLists for files in use, made when they are first asked for.
	merged atomic.Pointer[mergedLists]
	// history is how reading the files went.
	history reloads
	// asked returns which rules of a set are asked.
	asked func(*rules.Set) func(*rules.Rule) bool
}

// openRules loads what conf names. store says whether a limit goes on counting at a
// reload, form how front ends write the value of an entry.
func openRules(conf *Config, store *openedStore, form func(key, value string) (string, error), log *slog.Logger) (*ruleSet, error) {
	check, err := conf.checkLimit()
	if err != nil {
		return nil, err
	}
	words, err := checkedWordRules(conf, check)
	if err != nil {
		return nil, err
	}
	r := &ruleSet{words: words, log: log}
	if conf.Rules != "" {
		r.live, err = rules.Open([]string{conf.Rules}, rules.Options{Check: check, CheckCost: conf.checkCost(), Restarts: store.restarts, EntryForm: form, Logger: log})
	}
	return r, err
}

// checkedWordRules returns the limits in words, all of which check lets pass.
func checkedWordRules(c *Config, check func(*weir.Limit) error) (*wordRules, error) {
	words, err := newWordRules(c.Limits, c.API.Domain)
	if err == nil {
		err = words.addRoutes(c.Routes)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range words.series() {
		if err := check(s.Limit); err != nil {
			return nil, fmt.Errorf("--limit %q: %w", s.Limit.Name, err)
		}
	}
	if c.Upstream != "" && len(c.Routes) == 0 && c.Rules == "" && c.Shed == nil && !words.limitForwarded() {
		return nil, errors.New("--upstream: no limit applies to what is forwarded, as the gateway knows no client_id: count by ip or by all")
	}
	return words, nil
}

// Match implements [weir.Rules].
func (r *ruleSet) Match(dst []weir.Op, req *weir.Request) []weir.Op {
	if len(r.words.limits) > 0 {
		dst = r.words.Match(dst, req)
	}
	if r.live != nil {
		dst = r.live.Match(dst, req)
	}
	return dst
}

// KeyLists implements [weir.KeyLister]: the lists of the files, and what the limits in
// words are about.
func (r *ruleSet) KeyLists(domain string) []weir.KeyList {
	files := r.set().KeyLists(domain)
	if domain != r.words.domain || r.words.general == 0 {
		return files
	}
	if m := r.merged.Load(); m != nil && len(m.files) == len(files) && (len(files) == 0 || &m.files[0] == &files[0]) {
		return m.all
	}
	m := &mergedLists{files, slices.Clip(files)}
	for i := range r.words.limits[:r.words.general] {
		for _, keys := range r.words.limits[i].keyLists() {
			// A second descriptor of the same keys would be charged as well.
			if !slices.ContainsFunc(m.all, func(l weir.KeyList) bool { return slices.Equal(l.Keys, keys) }) {
				m.all = append(m.all, weir.KeyList{Keys: keys})
			}
		}
	}
	r.merged.Store(m)
	return m.all
}

// mergedLists are lists of keys of the files, and all that a node has with them.
type mergedLists struct{ files, all []weir.KeyList }

// watch follows the files until ctx ends.
func (r *ruleSet) watch(ctx context.Context) {
	if r.live == nil {
		return
	}
	var following sync.WaitGroup
	following.Go(func() { followRules(ctx, r.live, func() { r.history.note(r.live, r.log) }) })
	defer following.Wait()
	if err := r.live.Watch(ctx); err != nil {
		r.log.Error("rules watch failed; reload with SIGHUP", "err", err)
	}
}

// reload reads the files now.
func (r *ruleSet) reload() {
	if r.live == nil {
		r.log.Info("reload without effect: there is no rules file, limits of --limit change with a restart")
		return
	}
	r.history.ask(true)
	defer r.history.ask(false)
	// Live logs the outcome and keeps it for status.
	_ = r.live.Reload()
	r.history.note(r.live, r.log)
}

// reloads says how reading the files went, for metrics.
func (r *ruleSet) reloads() metrics.Reloads {
	if r.live == nil {
		return metrics.Reloads{OK: true}
	}
	s := r.live.Status()
	return metrics.Reloads{Succeeded: s.Successes, Failed: s.Failures, OK: s.Err == nil, Last: s.LoadedAt}
}

// maxUnaskedShown is how many rules that are not asked are shown.
const maxUnaskedShown = 100

// ruleStatus is what the admin listener says about the rules.
type ruleStatus struct {
	// Limits are those in words.
	Limits []string `json:"limits,omitempty"`
	// Modes are those of limits that operators changed, a line each.
	Modes []string `json:"modes,omitempty"`
	// Generation counts the sets that were put in use; the rest describes the
	// one in use and the last attempt to replace it.
	Generation uint64     `json:"generation,omitempty"`
	LoadedAt   *time.Time `json:"loaded_at,omitempty"`
	Hash       string     `json:"hash,omitempty"`
	Files      []string   `json:"files,omitempty"`
	Rules      int        `json:"rules,omitempty"`
	Warnings   []string   `json:"warnings,omitempty"`
	Error      string     `json:"error,omitempty"`
	FailedAt   *time.Time `json:"failed_at,omitempty"`
	Successes  uint64     `json:"successes,omitempty"`
	Failures   uint64     `json:"failures,omitempty"`
	// Unasked are the rules that nobody can meet, as domain/rule, the first of them.
	Unasked []string `json:"unasked,omitempty"`
	// Reloads are the last attempts, the newest first.
	Reloads []attempt `json:"reloads,omitempty"`
}

func (r *ruleSet) status() ruleStatus {
	var out ruleStatus
	for _, l := range r.words.limits {
		out.Limits = append(out.Limits, l.text)
	}
	for _, v := range r.overlay.Modes.Views() {
		out.Modes = append(out.Modes, fmt.Sprintf("%s/%s, limit %q: %s", v.Domain, v.Rule, v.Limit, v.String()))
	}
	if r.live == nil {
		return out
	}
	s := r.live.Status()
	out.Generation, out.LoadedAt, out.Hash, out.Files, out.Rules = s.Generation, &s.LoadedAt, s.Hash, s.Files, s.Rules
	out.Successes, out.Failures, out.Reloads = s.Successes, s.Failures, r.history.list()
	unasked := r.unasked()
	for _, rule := range unasked[:min(len(unasked), maxUnaskedShown)] {
		out.Unasked = append(out.Unasked, rule.Domain+"/"+rule.Path)
	}
	for _, w := range s.Warnings {
		out.Warnings = append(out.Warnings, w.Error())
	}
	if s.Err != nil {
		out.Error, out.FailedAt = s.Err.Error(), &s.FailedAt
	}
	return out
}

// unasked returns the rules of the files that decide something, and that nobody can meet.
func (r *ruleSet) unasked() (out []*rules.Rule) {
	set := r.set()
	asked := r.asked(set)
	for _, rule := range set.Rules() {
		if rule.Decides() && !asked(rule) {
			out = append(out, rule)
		}
	}
	return out
}

// series lists every limit in use with its labels.
func (r *ruleSet) series() []metrics.Series {
	out := r.words.series()
	for _, p := range r.set().LimitRefs() {
		out = append(out, metrics.Series{Domain: p.Domain, Rule: p.Rule, Limit: p.Limit})
	}
	return out
}
