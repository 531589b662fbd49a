package server

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

// readSecret reads the file of a secret. One newline at its end is no part of the
// secret: editors and most commands write one, and the other side has none.
func readSecret(path string) ([]byte, error) {
	secret, err := regular.Read(path, maxSecret)
	if err != nil {
		return nil, err
	}
	secret = bytes.TrimSuffix(secret, []byte("\n"))
	secret = bytes.TrimSuffix(secret, []byte("\r"))
	if len(secret) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}
