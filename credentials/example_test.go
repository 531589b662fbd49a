package credentials_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
)

// Users are named by the tokens of an issuer, tiers by a file of API keys.
func Example() {
	dir, err := os.MkdirTemp("", "keys")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "keys.csv")
	row := fmt.Sprintf("sha256,user,tier\n%x,acme,gold\n", sha256.Sum256([]byte("a-random-key-of-128-bits")))
	if err := os.WriteFile(file, []byte(row), 0o600); err != nil {
		panic(err)
	}

	keys, err := credentials.LoadKeys(file)
	if err != nil {
		panic(err)
	}
	tokens, err := credentials.NewTokens(credentials.JWTOptions{
		Secret:  identity.Secret("a secret of at least 32 bytes, from a file"),
		Issuers: []string{"https://login.example"},
	})
	if err != nil {
		panic(err)
	}
	who, err := identity.New(identity.Options{
		APIKey: identity.APIKeyOptions{From: []string{"header:X-API-Key"}},
		Keys:   keys,
		Token:  identity.TokenOptions{Verifier: tokens},
		User:   []string{"jwt:sub", "api_key"},
		Tier:   []string{"keys"},
	})
	if err != nil {
		panic(err)
	}
	defer who.Close() // closes tokens

	c := who.Acquire()
	defer c.Release()
	c.Set(identity.Facts{Path: "/", Header: http.Header{"X-Api-Key": {"a-random-key-of-128-bits"}}})
	fmt.Println(c.User(), c.Tier())
	// Output: acme gold
}
