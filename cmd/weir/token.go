package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// tokenFlags are those of the subcommands that ask the admin port of a server.
type tokenFlags struct {
	Token     string `name:"token" env:"WEIR_ADMIN_TOKEN" placeholder:"TOKEN" help:"Admin token of the server [$WEIR_ADMIN_TOKEN]."`
	TokenFile string `name:"token-file" env:"WEIR_ADMIN_TOKEN_FILE" placeholder:"FILE" help:"File that holds the admin token [$WEIR_ADMIN_TOKEN_FILE]."`
}

// token returns the token that is given, or that the file holds.
func (f *tokenFlags) token() (string, error) {
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
