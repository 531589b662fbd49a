package words

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/limits"
)

// Entries that tell who the client is.
const (
	// Address is the key of the client's address, which front ends know, and ClientID
	// that of what callers of the API name.
	Address  = "remote_address"
	ClientID = "client_id"
	// RouteKey is the key of the first entry of the descriptors that a limit of a route
	// is matched by. Its value is the route's name, so that no other request meets it.
	RouteKey = "route_limit"
)

// Everybody is the key of a limit by all.
const Everybody = "all"

// Builder makes layers of limits in words.
type Builder struct {
	// general are the limits of all requests, ofRoutes those of routes, which ask about
	// their requests by the keys of these.
	general, ofRoutes limits.Domain
	seen              map[string]bool
}

// NewBuilder returns a builder of limits of a domain.
func NewBuilder(domain string) *Builder {
	return &Builder{limits.Domain{Name: domain}, limits.Domain{Name: domain, Unlisted: true}, map[string]bool{}}
}

// Add adds a limit of all requests.
func (b *Builder) Add(w *Words) error {
	lists := w.KeyLists()
	all := w.By[0] == byAll
	var shared *limits.Limit
	for _, keys := range lists {
		l := shared
		if l == nil {
			var err error
			if l, err = w.compile(keys); err != nil {
				return err
			}
			if all { // everybody counts under one key, and so in one limit
				l.SharedKey, shared = Everybody, l
			}
		}
		put(&b.general, keys, "", l)
	}
	return b.once(w.Text)
}

// AddOfRoute adds a limit of the requests of a route.
func (b *Builder) AddOfRoute(w *Words, route string) error {
	keys := w.RouteKeys()
	l, err := w.compile(keys)
	if err != nil {
		return err
	}
	put(&b.ofRoutes, keys, route, l)
	return b.once(w.Text)
}

// once reports a limit that is there already: it would count every request twice.
func (b *Builder) once(text string) error {
	if b.seen[text] {
		return fmt.Errorf("limit %q is given twice", text)
	}
	b.seen[text] = true
	return nil
}

// put puts a limit at the rule of the keys in d, of which the first has the value, if any.
func put(d *limits.Domain, keys []string, value string, l *limits.Limit) {
	rules, rule := &d.Rules, (*limits.Rule)(nil)
	for i, key := range keys {
		at := slices.IndexFunc(*rules, func(r *limits.Rule) bool { return r.Key == key && r.Value == value })
		if at < 0 {
			rule = &limits.Rule{Domain: d.Name, Path: strings.Join(keys[:i+1], "/"), Key: key, Value: value, CountsValue: value != "", Keys: keys[:i+1], Parent: rule}
			*rules = append(*rules, rule)
		} else {
			rule = (*rules)[at]
		}
		rules, value = &rule.Rules, ""
	}
	if l.Rule == nil {
		l.Rule = rule
	}
	rule.Limits = append(rule.Limits, l)
}

// Layers returns the layers, those of all requests first; none without limits. The builder
// must not be used any more.
func (b *Builder) Layers() ([]*limits.Layer, error) {
	var all []*limits.Layer
	for _, d := range []limits.Domain{b.general, b.ofRoutes} {
		if len(d.Rules) == 0 {
			continue
		}
		l, err := limits.NewLayer(d)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// KeyLists returns the keys of the descriptors that w is about: of a client's address and
// its clientId where it counts by ip, or all.
func (w *Words) KeyLists() [][]string {
	lists := [][]string{nil}
	for _, by := range w.By {
		keys := []string{by}
		if by == byIP || by == byAll {
			keys = []string{Address, ClientID}
		}
		var longer [][]string
		for _, key := range keys {
			for _, l := range lists {
				longer = append(longer, append(slices.Clip(l), key))
			}
		}
		lists = longer
	}
	return lists
}

// RouteKeys returns the keys of the descriptor that a limit of a route is matched by.
func (w *Words) RouteKeys() []string {
	keys := []string{RouteKey}
	for _, by := range w.By {
		switch by {
		case byAll:
		case byIP:
			keys = append(keys, Address)
		default:
			keys = append(keys, by)
		}
	}
	return keys
}

// CountsBy reports whether w counts by a source.
func (w *Words) CountsBy(source string) bool { return slices.Contains(w.By, source) }

// compile returns the limit that w says, with counters of its own for a list of keys.
func (w *Words) compile(keys []string) (*limits.Limit, error) {
	l := w.Limit()
	l.Scope = "\x1flimit\x1f" + strings.Join(keys, "\x1f") + "\x1f" + w.Text
	return &limits.Limit{Limit: l}, l.Compile()
}
