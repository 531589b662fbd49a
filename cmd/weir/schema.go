package main

import "embed"

// schemas are made by tests of internal/server and of rules.
//
//go:embed schema/*.schema.json
var schemas embed.FS

type schemaCmd struct {
	Of string `arg:"" enum:"config,rules" help:"Schema of which files: ${enum}."`
}

// Help is the long text of `weir schema --help`.
func (*schemaCmd) Help() string {
	return `Examples:

  weir schema config > config.schema.json
  weir schema rules > rules.schema.json

Prints the JSON Schema that the release publishes, for editors and checks without network.
An editor takes it where a file begins with this line:

  # yaml-language-server: $schema=./rules.schema.json

Exit status: 0 printed, 2 an unknown schema.`
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
