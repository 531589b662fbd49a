package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/internal/remote"
)

// operatorFlags are those of the subcommands that ask a server as an operator.
type operatorFlags struct {
	Admin string `name:"admin" was:"server" env:"-" default:"http://127.0.0.1:6070" placeholder:"URL" help:"Admin address of the node to ask: from the same machine, or any with a token."`
	tokenFlags
	Timeout time.Duration `name:"timeout" env:"-" default:"5s" placeholder:"DURATION" help:"Longest time to wait for the answer."`
	JSON    bool          `name:"json" env:"-" help:"Print the server's answer as it is."`
}

// callServer asks the server, and reads its answer into what the words say. It returns the
// answer as it came too.
func (c *operatorFlags) callServer(method, path string, q, into any, what string) ([]byte, error) {
	token, err := c.readToken()
	if err != nil {
		return nil, err
	}
	srv := remote.Server{URL: c.Admin, Token: token, Timeout: c.Timeout}
	return srv.Read(method, path, q, into, what)
}

// watched are the flags of subcommands that watch a running server.
type watched struct {
	Admin string `name:"admin" was:"server" env:"-" default:"http://127.0.0.1:6070" placeholder:"URL" help:"Admin address of the node to watch: from the same machine, or any with a token."`
	tokenFlags
	Timeout time.Duration `name:"timeout" env:"-" default:"10s" placeholder:"DURATION" help:"Longest time to wait for the server to answer."`
}

// openStream opens the live stream of what the filter lets through. It ends with ctx.
func (w *watched) openStream(ctx context.Context, filter *live.Filter) (*remote.Stream, error) {
	token, err := w.readToken()
	if err != nil {
		return nil, err
	}
	srv := remote.Server{URL: w.Admin, Token: token, Timeout: w.Timeout}
	return srv.OpenStream(ctx, filter)
}

// tokenFlags are those of the subcommands that ask the admin port of a server.
type tokenFlags struct {
	Token     string `name:"token" env:"WEIR_ADMIN_TOKEN" placeholder:"TOKEN" help:"Admin token of the server [$WEIR_ADMIN_TOKEN]."`
	TokenFile string `name:"token-file" env:"WEIR_ADMIN_TOKEN_FILE" placeholder:"FILE" help:"File that holds the admin token [$WEIR_ADMIN_TOKEN_FILE]."`
}

// readToken returns the token that is given, or that the file holds.
func (f *tokenFlags) readToken() (string, error) {
	switch {
	case f.TokenFile == "":
		return f.Token, nil
	case f.Token != "":
		return "", errors.New("--token and --token-file are both given: keep one")
	}
	file, err := os.Open(f.TokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, 4096))
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("--token-file: %s is empty", f.TokenFile)
	}
	return token, nil
}
