package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/shed"
)

// ruleSet is the limits that a node decides by: in words, of routes, of the rules files where
// there are any, and of load shedding. A request must pass all. Safe for concurrent use.
type ruleSet struct {
	// live is the set of them all, which follows the files.
	live *rules.Live
	// hasFiles: there are rules files.
	hasFiles bool
	words    *config.WordLimits
	log      *slog.Logger
	// overlay is what operators have laid over the rules.
	overlay *overlay.Overlay
	// history is how reading the files went.
	history reloads
	// asked returns which rules of a set are asked.
	asked func(*limits.Set) func(*limits.Rule) bool
}

// openRules loads what conf names, and the limits of load shedding, nil for none. store says
// whether a limit goes on counting at a reload, form how front ends write the value of an
// entry.
func openRules(conf *config.Config, sh *shed.Shedder, store *openedStore, form func(key, value string) (string, error), log *slog.Logger) (*ruleSet, error) {
	check, err := conf.LimitCheck()
	if err != nil {
		return nil, err
	}
	w, err := config.ReadWords(conf, check)
	if err != nil {
		return nil, err
	}
	r := &ruleSet{words: w, hasFiles: conf.Rules != "", log: log}
	layers := w.Layers
	if sh != nil {
		layers = append(slices.Clip(layers), sh.Layer())
	}
	if !r.hasFiles {
		r.live = rules.Fixed(limits.NewSet(layers...))
		return r, nil
	}
	r.live, err = rules.Open([]string{conf.Rules}, rules.Options{Layers: layers, Check: check, CheckCost: conf.CostCheck(), Restarts: store.restarts, EntryForm: form, Logger: log})
	return r, err
}

// currentLimits returns the limits in use.
func (r *ruleSet) currentLimits() *limits.Set { return r.live.Set() }

// fileLimits returns the limits of the rules files in use.
func (r *ruleSet) fileLimits() []*weir.Limit {
	inWords := limits.NewSet(r.words.Layers...).Limits()
	return slices.DeleteFunc(r.currentLimits().Limits(), func(l *weir.Limit) bool { return slices.Contains(inWords, l) })
}

// watchFiles follows the files until ctx ends.
func (r *ruleSet) watchFiles(ctx context.Context) {
	if !r.hasFiles {
		return
	}
	var following sync.WaitGroup
	following.Go(func() { followRules(ctx, r.live, func() { r.history.noteAttempt(r.live, r.log) }) })
	defer following.Wait()
	if err := r.live.Watch(ctx); err != nil {
		r.log.Error("rules watch failed; reload with SIGHUP", "err", err)
	}
}

// reloadFiles reads the files now.
func (r *ruleSet) reloadFiles() {
	if !r.hasFiles {
		r.log.Info("reload without effect: there is no rules file, limits of --limit change with a restart")
		return
	}
	r.history.setAsked(true)
	defer r.history.setAsked(false)
	// Live logs the outcome and keeps it for status.
	_ = r.live.Reload()
	r.history.noteAttempt(r.live, r.log)
}

// reloads says how reading the files went, for metrics.
func (r *ruleSet) reloads() metrics.Reloads {
	if !r.hasFiles {
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
	out.Limits = r.words.Texts()
	for _, v := range r.overlay.Modes.Views() {
		out.Modes = append(out.Modes, fmt.Sprintf("%s/%s, limit %q: %s", v.Domain, v.Rule, v.Limit, v.String()))
	}
	if !r.hasFiles {
		return out
	}
	s := r.live.Status()
	out.Generation, out.LoadedAt, out.Hash, out.Files, out.Rules = s.Generation, &s.LoadedAt, s.Hash, s.Files, s.Rules
	out.Successes, out.Failures, out.Reloads = s.Successes, s.Failures, r.history.listAttempts()
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
func (r *ruleSet) unasked() (out []*limits.Rule) {
	set := r.currentLimits()
	asked := r.asked(set)
	for _, rule := range set.FileRules() {
		if rule.Decides() && !asked(rule) {
			out = append(out, rule)
		}
	}
	return out
}
