package cases

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"go.yaml.in/yaml/v3"
)

// httpRequest is a request over HTTP: its line, such as POST /login, or a block.
type httpRequest struct {
	// Method of the request. Empty means GET.
	Method string `yaml:"method"`
	// Path, with the query if there is one.
	Path string `yaml:"path"`
	// Host that the client asks. Empty means localhost.
	Host string `yaml:"host"`
	// Headers by name: a value, or a list of them.
	Headers map[string]headerValues `yaml:"headers"`
	// From is the address of the peer. Empty means 127.0.0.1.
	From string `yaml:"from"`

	read *http.Request
}

type httpFields httpRequest

// UnmarshalYAML implements yaml.Unmarshaler. A request that no server reads is an error.
func (h *httpRequest) UnmarshalYAML(n *yaml.Node) error {
	line := n.Value
	if n.Kind != yaml.ScalarNode {
		if err := decodeMapping(n, (*httpFields)(h)); err != nil {
			return err
		}
		if line = h.Path; h.Method != "" {
			line = h.Method + " " + h.Path
		}
	}
	if h.From == "" {
		h.From = "127.0.0.1"
	}
	var fields []string
	if h.Host != "" {
		fields = append(fields, "Host: "+h.Host)
	}
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		for _, v := range h.Headers[name] {
			fields = append(fields, name+": "+v)
		}
	}
	var err error
	if h.read, err = ReadRequest(line, fields, h.From); err != nil {
		return fmt.Errorf("line %d: http: %w", n.Line, err)
	}
	return nil
}

// headerValues are the values of one header field.
type headerValues []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *headerValues) UnmarshalYAML(n *yaml.Node) error {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, item := range items {
		if item.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: a header field has a value, or a list of them", item.Line)
		}
		*v = append(*v, item.Value)
	}
	return nil
}
