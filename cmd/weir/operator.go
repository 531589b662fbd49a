package main

import (
	"time"
)

// operatorFlags are those of the subcommands that ask a server as an operator.
type operatorFlags struct {
	Admin string `name:"admin" was:"server" env:"-" default:"http://127.0.0.1:6070" placeholder:"URL" help:"Admin address of the node to ask: from the same machine, or any with a token."`
	tokenFlags
	Timeout time.Duration `name:"timeout" env:"-" default:"5s" placeholder:"DURATION" help:"Longest time to wait for the answer."`
	JSON    bool          `name:"json" env:"-" help:"Print the server's answer as it is."`
}

// call asks the server, and reads its answer into what the words say. It returns the
// answer as it came too.
func (c *operatorFlags) call(method, path string, q, into any, what string) ([]byte, error) {
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	srv := remote{url: c.Admin, token: token, timeout: c.Timeout}
	return srv.read(method, path, q, into, what)
}
