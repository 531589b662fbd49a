package server

import (
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Print writes c as a configuration file, secrets redacted.
func (c *Config) Print(w io.Writer) error { return printYAML(w, c.public()) }

// PrintChanged is Print of the settings that differ from the defaults; nothing if none
// does. A list is printed whole.
func PrintChanged(w io.Writer, c *Config) error {
	var now, was yaml.Node
	if err := now.Encode(c.public()); err != nil {
		return err
	}
	if err := was.Encode(Defaults().public()); err != nil {
		return err
	}
	if prune(&now, &was); len(now.Content) == 0 {
		return nil
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

// prune removes from a mapping what another has too.
func prune(now, was *yaml.Node) {
	var kept []*yaml.Node
	for i := 0; i+1 < len(now.Content); i += 2 {
		key, value := now.Content[i], now.Content[i+1]
		old := lookUp(was, key.Value)
		switch {
		case old == nil:
		case sameYAML(value, old):
			continue
		case value.Kind == yaml.MappingNode && old.Kind == yaml.MappingNode:
			prune(value, old)
		}
		kept = append(kept, key, value)
	}
	now.Content = kept
}

func sameYAML(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Tag == b.Tag && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, sameYAML)
}
