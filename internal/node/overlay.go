package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/words"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/metrics"
)

// overlayMetrics counts what operators changed.
func overlayMetrics(o *overlay.Overlay) metrics.Overlay {
	n := o.CountEntries()
	out := metrics.Overlay{Bans: n[overlay.Ban] + n[overlay.BanDomain], Overrides: n[overlay.Override], Allowed: n[overlay.Allow]}
	for _, v := range o.Modes.Views() {
		m := metrics.Mode{Name: v.Name, Mode: string(v.Mode)}
		if v.Percent != nil {
			m.Percent = *v.Percent
		}
		if v.Until != nil {
			m.Until = *v.Until
		}
		out.Modes = append(out.Modes, m)
	}
	return out
}

// openOverlay lays bans, overrides and modes over what the node decides by. They are kept
// where all nodes see them if there is such a place, else in a file if there is one.
func (s *Server) openOverlay() error {
	var board documents.Board
	switch {
	case s.store.fleet && s.conf.Overlay != "":
		return errors.New("--overlay: this store keeps bans, overrides and modes for all nodes: leave the file out")
	case s.conf.Overlay != "":
		file, err := overlay.OpenFile(s.conf.Overlay)
		if err != nil {
			return fmt.Errorf("--overlay: %w", err)
		}
		if err := file.CheckWritable(); err != nil {
			s.log.Warn("changes by operators will fail: the folder of --overlay cannot be written", "overlay", s.conf.Overlay, "err", err)
		}
		board = file
	default:
		board = s.store.board
	}
	if !s.store.fleet && s.store.shared != nil {
		s.log.Info("bans, overrides and modes are local to this node: the store cannot keep them")
	}
	var err error
	s.overlay, err = overlay.New(context.Background(), overlay.Options{
		Rules: s.rules.live, Board: board, Check: s.store.check, Restarts: s.store.restarts, Limits: func() []*limits.Limit { return s.rules.currentLimits().Changeable() }, Node: config.MachineName(), Logger: s.log,
	})
	s.rules.overlay = s.overlay
	return err
}

// knownClients returns the clients that events of this node had a name for lately. t is nil
// where events are off.
func (r *ruleSet) knownClients(t *eventPipeline, name string) []httpapi.KnownClient {
	if t == nil {
		return nil
	}
	var out []httpapi.KnownClient
	for _, k := range t.observer.Known(name) {
		if c, ok := r.clientOf(k.Limit, k.Key); ok && !slices.ContainsFunc(out, c.Equal) {
			out = append(out, c)
		}
	}
	return out
}

// entryForm returns the form in which front ends write a value of an entry, also where
// routes give a source a key of their own; of several forms, the value itself if it is
// one of them.
func (s *Server) entryForm(key, value string) (string, error) {
	if !s.conf.MakesDescriptors() {
		return value, nil // callers of the API are counted by what they send
	}
	form, err := s.identity.EntryForm(key, value)
	if err != nil || form != value {
		return form, err
	}
	isFound, written := false, ""
	for i := range s.conf.Routes {
		descriptors, _ := s.conf.Routes[i].AllDescriptors(i)
		for _, d := range descriptors {
			for j, k := range d.Keys() {
				from := d.Entries[j].From
				fixed, isFixed := strings.CutPrefix(from, "value:")
				if k != key || isFixed && fixed != value {
					if k == key {
						written = fixed
					}
					continue
				}
				got, fault := value, error(nil)
				if !isFixed {
					got, fault = s.identity.EntryForm(from, value)
				}
				if fault == nil && got == value {
					return value, nil
				}
				isFound, form, err = true, got, fault
			}
		}
	}
	if !isFound && written != "" {
		return "", fmt.Errorf("routes write it as %q", written)
	}
	return form, err
}

// isSent reports whether front ends that make descriptors themselves, if there are any,
// send one that begins with the keys, the last of which may name a tier and stand apart;
// isAnywhere: one that has the last of them.
func isSent(s *Server, keys []string, isAnywhere bool) bool {
	if !s.conf.MakesDescriptors() {
		return true
	}
	lists := config.SentKeys(s.conf)
	if len(s.conf.Routes) == 0 {
		lists = [][]string{{words.Address}}
		for _, l := range s.overlay.KeyLists(s.conf.API.Domain) {
			if !slices.ContainsFunc(l.Keys, func(key string) bool { return s.identity.Unknown(key) != nil }) {
				lists = append(lists, l.Keys)
			}
		}
	}
	begins := func(keys []string) bool {
		return slices.ContainsFunc(lists, func(l []string) bool { return len(l) >= len(keys) && slices.Equal(l[:len(keys)], keys) })
	}
	last := len(keys) - 1
	return begins(keys) || config.HaveKey(lists, keys[last]) && (isAnywhere || last > 0 && begins(keys[:last]))
}

// clientOf returns the entries that make a key of a limit.
func (r *ruleSet) clientOf(l *weir.Limit, key string) (httpapi.KnownClient, bool) {
	name, scope := strings.TrimSuffix(l.Name, " (banned)"), strings.TrimSuffix(l.Scope, "\x1fbanned")
	if name == overlay.DomainBan {
		domain, entry, ok := strings.Cut(scope, "/")
		return httpapi.KnownClient{Domain: domain, Limit: entry, Entries: []weir.Entry{{Key: entry, Value: key}}}, ok
	}
	domain, entries, ok := r.currentLimits().EntriesOf(l, key)
	return httpapi.KnownClient{Domain: domain, Limit: name, Entries: entries}, ok
}
