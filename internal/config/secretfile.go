package config

import (
	"bytes"
	"fmt"

	"github.com/weirlimit/weir/internal/regular"
)

// maxSecret bounds the file of a secret, in bytes.
const maxSecret = 4096

// minSecret is the least length of a secret that other machines can guess at, in
// bytes.
const minSecret = 16

// ReadSecret reads the file of a secret, nothing without a path. name is what errors call
// it. One newline at its end is no part of the secret: editors and most commands write one,
// and the other side has none.
func ReadSecret(name, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	secret, err := regular.Read(path, maxSecret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	secret = bytes.TrimSuffix(secret, []byte("\n"))
	secret = bytes.TrimSuffix(secret, []byte("\r"))
	if len(secret) == 0 {
		return nil, fmt.Errorf("%s: %s is empty", name, path)
	}
	return secret, nil
}
