package main

import (
	"fmt"

	"github.com/weirlimit/weir/internal/server"
)

type rulesCmd struct {
	FromLimit string `name:"from-limit" env:"-" required:"" placeholder:"WORDS" help:"A limit as weir serve --limit takes it."`
	API       bool   `name:"api" env:"-" help:"Limit callers of /shouldAllowRequest too, by their clientId."`
	Domain    string `name:"domain" env:"-" default:"api" placeholder:"NAME" help:"Domain of the requests."`
}

// Run prints the rules file.
func (c *rulesCmd) Run(s streams) error {
	text, err := server.WriteWords(c.FromLimit, c.Domain, c.API)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(s.out, text)
	return err
}
