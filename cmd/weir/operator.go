package main

import (
	"time"
)

// operatorFlags are those of the subcommands that ask a server as an operator.
type operatorFlags struct {
	Admin     string        `name:"admin" aliases:"server" env:"-" default:"http://127.0.0.1:6070" placeholder:"URL" help:"Server to ask: its admin address from the same machine, or any with a token. --server is the same."`
	Token     string        `name:"token" env:"WEIR_ADMIN_TOKEN" placeholder:"TOKEN" help:"Admin token of the server."`
	TokenFile string        `name:"token-file" env:"WEIR_ADMIN_TOKEN_FILE" placeholder:"FILE" help:"File that holds the admin token."`
	Timeout   time.Duration `name:"timeout" env:"-" default:"5s" placeholder:"DURATION" help:"Longest time to wait for the answer."`
	JSON      bool          `name:"json" env:"-" help:"Print the server's answer as it is."`
}

// call asks the server.
func (c *operatorFlags) call(method, path string, q any) ([]byte, error) {
	token, err := tokenOf(c.Token, c.TokenFile)
	if err != nil {
		return nil, err
	}
	srv := remote{url: c.Admin, token: token, timeout: c.Timeout, flag: "--admin"}
	return srv.call(method, path, q)
}
