package accesslog

import (
	"fmt"
	"strings"
)

// Format reads the lines of one log. It keeps what lines have in common, and is
// not safe for concurrent use.
type Format interface {
	// Parse reads a line, without its end, into l. What l holds then points into
	// the line, or into the format until its next Parse.
	Parse(line []byte, l *Line) error
}

// formats are the formats by name.
var formats = []struct {
	name string
	open func() Format
}{
	{"combined", func() Format { return &Combined{} }},
	{"common", func() Format { return &Combined{} }},
	{"nginx", func() Format { return &Combined{} }},
	{"apache", func() Format { return &Combined{} }},
	{"traefik", func() Format { return &Combined{} }},
	{"vhost", func() Format { return &Combined{VHost: true} }},
	{"envoy", func() Format { return &Envoy{} }},
	{"istio", func() Format { return &Envoy{} }},
	{"caddy", func() Format { return &JSON{} }},
	{"json", func() Format { return &JSON{} }},
}

// FormatNames lists the names of all formats.
func FormatNames() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// OpenFormat returns the format of that name.
func OpenFormat(name string) (Format, error) {
	for _, f := range formats {
		if f.name == name {
			return f.open(), nil
		}
	}
	return nil, fmt.Errorf("unknown log format %q: there are %s", name, strings.Join(FormatNames(), ", "))
}

// DetectFormat returns the first format that reads one of the lines.
func DetectFormat(lines [][]byte) (Format, error) {
	var first error
	for _, b := range lines {
		if len(b) == 0 {
			continue
		}
		for _, name := range guessFormats(b) {
			f, err := OpenFormat(name)
			if err == nil {
				err = f.Parse(b, new(Line))
			}
			if err == nil {
				return f, nil
			}
			if first == nil {
				first = fmt.Errorf("read as %s: %w", name, err)
			}
		}
	}
	if first == nil {
		first = fmt.Errorf("there is no line")
	}
	return nil, fmt.Errorf("the format is not known (%w): name it, one of %s", first, strings.Join(FormatNames(), ", "))
}

// guessFormats returns the names of the formats that a line may be of.
func guessFormats(b []byte) []string {
	switch b[0] {
	case '{':
		return []string{"json"}
	case '[':
		return []string{"envoy"}
	}
	return []string{"combined", "vhost"}
}
