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

// writeAnswer writes the answer of a server: as it came if asJSON, else for a person.
func (s streams) writeAnswer(answer []byte, asJSON bool, text string) error {
	if asJSON {
		text = string(bytes.TrimSpace(answer)) + "\n"
	}
	_, err := io.WriteString(s.out, text)
	return err
}
