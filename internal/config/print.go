package config

import (
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/identity"
)

// Print writes c as a configuration file, secrets redacted.
func (c *Config) Print(w io.Writer) error { return printYAML(w, c.WithoutSecrets()) }

// PrintChanged is Print of the settings that differ from the defaults; nothing if none
// does. Of a list all items are printed, of a route what is not zero.
func PrintChanged(w io.Writer, c *Config) error {
	var now, was yaml.Node
	if err := now.Encode(c.WithoutSecrets()); err != nil {
		return err
	}
	if err := was.Encode(Defaults().WithoutSecrets()); err != nil {
		return err
	}
	if removeEqual(&now, &was); len(now.Content) == 0 {
		return nil
	}
	if err := pruneRoutes(valueOfKey(&now, "routes")); err != nil {
		return err
	}
	return printYAML(w, &now)
}

func printYAML(w io.Writer, v any) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return enc.Close()
}

// removeEqual removes from a mapping what another has too.
func removeEqual(now, was *yaml.Node) {
	var kept []*yaml.Node
	for i := 0; i+1 < len(now.Content); i += 2 {
		key, value := now.Content[i], now.Content[i+1]
		old := valueOfKey(was, key.Value)
		switch {
		case old == nil:
		case sameYAML(value, old):
			continue
		case value.Kind == yaml.MappingNode && old.Kind == yaml.MappingNode:
			removeEqual(value, old)
		}
		kept = append(kept, key, value)
	}
	now.Content = kept
}

// pruneItems removes from the mappings of a list what the zero value of their type has.
func pruneItems(list *yaml.Node, zero any, nested func(item *yaml.Node) error) error {
	if list == nil {
		return nil
	}
	var was yaml.Node
	if err := was.Encode(zero); err != nil {
		return err
	}
	for _, item := range list.Content {
		if err := nested(item); err != nil {
			return err
		}
		removeEqual(item, &was)
	}
	return nil
}

// pruneRoutes removes what is zero from routes, their descriptors and their entries.
func pruneRoutes(routes *yaml.Node) error {
	return pruneItems(routes, Route{}, func(route *yaml.Node) error {
		return pruneItems(valueOfKey(route, "descriptors"), identity.Descriptor{}, func(d *yaml.Node) error {
			return pruneItems(valueOfKey(d, "entries"), identity.EntryFrom{}, func(*yaml.Node) error { return nil })
		})
	})
}

func sameYAML(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Tag == b.Tag && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, sameYAML)
}
