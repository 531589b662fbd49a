package main

import (
	"bytes"
	"encoding/json"
	"io"
)

// streams are where a subcommand reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// writeJSON writes v as indented JSON.
func (s streams) writeJSON(v any) error {
	enc := json.NewEncoder(s.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// writeReport writes v: as JSON if asJSON, else the text, which says it for a person.
func (s streams) writeReport(v any, asJSON bool, text string) error {
	if asJSON {
		return s.writeJSON(v)
	}
	_, err := io.WriteString(s.out, text)
	return err
}

// writeAnswer writes the answer of a server: as it came if asJSON, else for a person.
func (s streams) writeAnswer(answer []byte, asJSON bool, text string) error {
	if asJSON {
		text = string(bytes.TrimSpace(answer)) + "\n"
	}
	_, err := io.WriteString(s.out, text)
	return err
}
