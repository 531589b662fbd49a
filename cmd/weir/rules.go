package main

import (
	"fmt"

	"github.com/weirlimit/weir/internal/server"
)

type rulesCmd struct {
	FromLimit string `name:"from-limit" env:"-" required:"" placeholder:"WORDS" help:"A limit as weir serve --limit takes it."`
	Domain    string `name:"domain" env:"-" default:"api" placeholder:"NAME" help:"Domain of the requests."`
}

// Help is the long text of `weir rules --help`.
func (*rulesCmd) Help() string {
	return `Examples:

  weir rules --from-limit "100/minute by ip" > rules.yaml
  weir serve --rules rules.yaml --upstream http://localhost:3000

Prints the rules file that does what weir serve --limit does. A file can be changed while
the node runs, and counters begin afresh with it. Exit status: 0 printed, 2 not a limit.`
}

// Run prints the rules file.
func (c *rulesCmd) Run(s streams) error {
	text, err := server.WriteWords(c.FromLimit, c.Domain)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(s.out, text)
	return err
}
