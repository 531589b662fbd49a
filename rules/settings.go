package rules

import (
	"reflect"
	"slices"
)

// settingNames are the keys of settings, with the index of their field.
var settingNames = func() map[string]int {
	t := reflect.TypeFor[settings]()
	m := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		m[t.Field(i).Tag.Get("yaml")] = i
	}
	return m
}()

// layer is one place where settings are given.
type layer struct {
	node *node
	s    *settings
	// own: the settings are given for this very limit.
	own bool
}

// notInherited are the settings that make sense for one limit alone.
var notInherited = map[string]bool{"burst": true, "ceiling": true}

// fillFromLayers sets in s what is not set, from the layers in order.
func (s *settings) fillFromLayers(layers []layer) {
	to := reflect.ValueOf(s).Elem()
	for _, l := range layers {
		from := reflect.ValueOf(l.s).Elem()
		for name, i := range settingNames {
			if to.Field(i).IsNil() && !from.Field(i).IsNil() && (l.own || !notInherited[name]) {
				to.Field(i).Set(from.Field(i))
			}
		}
	}
}

// findSetting returns the node of a setting in the first layer that has it, and
// whether that layer is the limit's own.
func findSetting(layers []layer, name string) (n *node, own bool) {
	for _, l := range layers {
		if v := l.node.valueOf(name); v != nil {
			return v, l.own
		}
	}
	return nil, false
}

// Takers returns the names of the algorithms that a setting such as "burst" is
// for, nil for a setting of all of them. An algorithm that is not in the package
// algorithm takes every setting.
func Takers(setting string) []string { return slices.Clone(takes[setting]) }

// takes lists the settings that only some algorithms know. Algorithms that are
// not in the package algorithm know them all.
var takes = map[string][]string{
	"burst":     {"token_bucket", "leaky_bucket", "leaky_queue"},
	"precision": {"sliding_subwindows"},
	"form":      {"sliding_subwindows"},
	"phase":     {"fixed_window"},
	"anchor":    {"fixed_window"},
	"time_zone": {"fixed_window"},
	"max_delay": {"leaky_queue"},
	"free":      {"leaky_queue"},
	"max_log":   {"sliding_log"},
	"sketch":    {"approximate"},
	"ttl":       {"concurrency"},
}

// known are the algorithms that takes and consistencies speak of.
var known = map[string]bool{
	"token_bucket": true, "leaky_bucket": true, "leaky_queue": true, "fixed_window": true, "sliding_log": true,
	"sliding_window": true, "sliding_counter": true, "sliding_subwindows": true, "concurrency": true, "approximate": true, "lockout": true,
}

// needsCount lists the settings that have nothing to do where nothing is
// counted: where all passes, or nothing does.
var needsCount = []string{"burst", "exceed", "pool", "ceiling", "rollout", "penalize", "ban", "headroom", "sketch", "cost",
	"count_on", "refund_on", "cost_from", "cost_per"}

// ofBorrowers lists the settings that a pool cannot have.
var ofBorrowers = []string{"mode", "exceed", "pool", "ceiling", "rollout", "penalize", "ban", "cost", "priority",
	"count_on", "refund_on", "cost_from", "cost_per"}

// needsMode lists the settings that belong to one mode.
var needsMode = map[string]string{"exceed": "soft", "pool": "elastic", "ceiling": "elastic"}

// consistencies tells which modes an algorithm cannot be counted in, and what
// to do instead.
var consistencies = map[string]map[string]string{
	"leased": {
		"leaky_queue": "nodes in a queue cannot be fetched ahead: use consistency: strict, or algorithm: token_bucket",
		"sliding_log": "a log cannot be fetched ahead: use algorithm: sliding_window, which is as strict",
		"approximate": "a sketch stays on its node: use consistency: local, or algorithm: sliding_window",
		"lockout":     "failures cannot be fetched ahead: use strict or local consistency",
	},
	"eventual": {
		"leaky_queue": "a queue has one order: use consistency: strict, or algorithm: token_bucket",
		"sliding_log": "a log cannot be told later: use algorithm: sliding_window",
		"concurrency": "leases cannot be told later: use consistency: leased",
		"approximate": "a sketch stays on its node: use consistency: local, or algorithm: sliding_window",
		"lockout":     "failures cannot be told later: use strict or local consistency",
	},
	"strict": {
		"approximate": "a sketch stays on its node: use consistency: local, or algorithm: sliding_window",
	},
}
