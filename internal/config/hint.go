package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/spell"
)

// otherKeys are what others call a key of a configuration file.
var otherKeys = map[string]string{
	"redis": "store", "backend": "upstream", "target": "upstream", "proxy_pass": "upstream",
	"url": "path", "uri": "path", "prefix": "path", "rate": "limit", "rate_limit": "limit",
}

// A descriptor and a route, by the keys that lead to them.
var (
	isDescriptor = regexp.MustCompile(`^routes\[\d+\]\.descriptors\[\d+\]\.$`)
	isRoute      = regexp.MustCompile(`^routes\[\d+\]\.$`)
)

// keyHint says what to write in the place of a key that the section has not.
func keyHint(section, name string, value *yaml.Node, known []string) string {
	switch meant := otherKeys[strings.ToLower(name)]; {
	case slices.Contains(known, meant):
		return fmt.Sprintf(" (did you mean %q?)", meant)
	case name == "keep_encoded_slash":
		return " (write allow: [encoded_slash], and backslash in it if %5C is to stay too)"
	case section == "" && (name == "listen" || name == "port" || name == "address"):
		return " (write http: {listen: ...})"
	case isDescriptor.MatchString(section) && identity.CheckSource(name) == nil:
		return fmt.Sprintf(" (write - entries: [%s])", name)
	case isRoute.MatchString(section) && name == "entries":
		return " (write descriptors: [{entries: ...}])"
	case isRoute.MatchString(section) && strings.HasPrefix(name, "/"):
		if value.Kind == yaml.ScalarNode {
			return fmt.Sprintf(" (write - {path: %s, limit: %s})", name, value.Value)
		}
		return fmt.Sprintf(" (write - {path: %s, ...})", name)
	}
	return spell.Hint(name, known)
}

// sectionHint says how a section is written that stands there as n.
func sectionHint(key string, n *yaml.Node, known []string) string {
	text := n.Value
	if n.Kind == yaml.SequenceNode {
		var items []string
		for _, item := range n.Content {
			items = append(items, item.Value)
		}
		text = strings.Join(items, ", ")
	}
	switch {
	case text == "":
		return ""
	case isDescriptor.MatchString(key):
		return fmt.Sprintf(" (write - entries: [%s])", text)
	case isRoute.MatchString(key) && strings.HasPrefix(text, "/"):
		return fmt.Sprintf(" (write - {path: %s, limit: 100/minute by ip})", text)
	case n.Kind == yaml.ScalarNode && slices.Contains(known, "listen"):
		return fmt.Sprintf(" (write %s: {listen: %s})", strings.TrimSuffix(key, "."), text)
	}
	return ""
}

// leafHint says how the value of a key is written that is a limit.
func leafHint(key string) string {
	if key == "limits" || strings.HasSuffix(key, ".limit") && !isInShed(key) {
		return " (write it in words, such as 100/minute by ip)"
	}
	return ""
}

// otherFile says which other file of Weir a document is, and where that is given; ""
// if it is none.
func otherFile(top *yaml.Node) string {
	switch {
	case top.Kind != yaml.MappingNode:
		return ""
	case valueOfKey(top, "cases") != nil:
		return "cases, not a configuration: give it to weir test"
	case valueOfKey(top, "domain") != nil, valueOfKey(top, "descriptors") != nil:
		return "rules, not a configuration: give it with --rules"
	}
	return ""
}

// valueOfKey returns the value of a key of a mapping, nil for none.
func valueOfKey(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
