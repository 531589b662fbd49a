package main

import "embed"

// schemas are made by tests of internal/config and of rules.
//
//go:embed schema/*.schema.json
var schemas embed.FS

type schemaCmd struct {
	Of string `arg:"" enum:"config,rules" help:"Schema of which files: ${enum}."`
}

// Run prints the schema.
func (c *schemaCmd) Run(s streams) error {
	text, err := schemas.ReadFile("schema/" + c.Of + ".schema.json")
	if err != nil {
		return err
	}
	_, err = s.out.Write(text)
	return err
}
