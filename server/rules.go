package server

import (
	"context"
	"log/slog"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/metrics"
)

// ruleSet is all that a node decides by: the limits in words, and the rules
// file where there is one. A request must pass both.
type ruleSet struct {
	words *wordRules
}

func openRules(conf *Config, log *slog.Logger) (*ruleSet, error) {
	words, err := newWordRules(conf.Limits, conf.API.Domain)
	if err != nil {
		return nil, err
	}
	return &ruleSet{words: words}, nil
}

// Match implements [weir.Rules].
func (r *ruleSet) Match(dst []weir.Op, req *weir.Request) []weir.Op {
	return r.words.Match(dst, req)
}

func (r *ruleSet) series() []metrics.Series {
	return r.words.series()
}

func (r *ruleSet) reloads() metrics.Reloads { return metrics.Reloads{} }

func (r *ruleSet) reload() {}

func (r *ruleSet) status() any { return nil }

func (r *ruleSet) watch(ctx context.Context) { <-ctx.Done() }
