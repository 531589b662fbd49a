package config

import (
	"slices"

	"github.com/weirlimit/weir/internal/words"
)

// MakesDescriptors reports whether some door of the node makes descriptors itself. The
// others can be asked anything.
func (c *Config) MakesDescriptors() bool { return c.Forwards() || c.IsAsked() }

// sentKeys returns the lists of keys of the descriptors that the route sends.
func (rt *Route) sentKeys() (lists [][]string) {
	descriptors, err := rt.AllDescriptors(0)
	if err != nil || rt.Unlimited {
		return nil // of the first, the node does not start
	}
	for _, d := range descriptors {
		lists = append(lists, d.Keys())
	}
	if len(descriptors) == 0 {
		lists = append(lists, []string{words.Address})
	}
	return lists
}

// SendsKey reports whether a descriptor of the route has an entry of the key.
func (rt *Route) SendsKey(key string) bool { return HaveKey(rt.sentKeys(), key) }

// HaveKey reports whether one of the lists has a key.
func HaveKey(lists [][]string, key string) bool {
	return slices.ContainsFunc(lists, func(l []string) bool { return slices.Contains(l, key) })
}

// HasUnrouted reports whether the doors take requests that no route does.
func HasUnrouted(c *Config) bool {
	takesAll := func(rt Route) bool {
		return rt.Host == "" && len(rt.Methods) == 0 && (rt.Path == "" || rt.Path == "/*")
	}
	return (c.Upstream != "" || c.IsAsked()) && !slices.ContainsFunc(c.Routes, takesAll)
}

// SentKeys returns the lists of keys of the descriptors that routes send, and requests
// without one.
func SentKeys(c *Config) (lists [][]string) {
	if HasUnrouted(c) {
		lists = append(lists, []string{words.Address})
	}
	for i := range c.Routes {
		lists = append(lists, c.Routes[i].sentKeys()...)
	}
	return lists
}
