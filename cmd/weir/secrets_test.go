package main_test

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestSecretsAreNotShown starts the server with a secret in each setting that is a URL, each
// of which is wrong or leads nowhere: neither what it logs nor why it does not start shows it.
func TestSecretsAreNotShown(t *testing.T) {
	const secret = "S3CRET-of-a-url"
	var all [][]string
	for _, store := range []string{"redis", "rediss", "valkey", "redis+sentinel", "redis+cluster", "redis+ring", "memcached", "other"} {
		for _, url := range []string{"://user:" + secret + "@127.0.0.1:1/0", "://user:" + secret + "@127.0.0.1:port/0", "://127.0.0.1:1/0?password=" + secret, "://" + secret + "@127.0.0.1:1,127.0.0.1:2"} {
			all = append(all, []string{"--store", store + url})
		}
	}
	for _, queue := range []string{"kafka", "kafkas", "amqp", "amqps", "other"} {
		for _, url := range []string{"://user:" + secret + "@127.0.0.1:1/weir?queue=q", "://user:" + secret + "@127.0.0.1:port/weir", "://127.0.0.1:1/weir?queue=q&password=" + secret} {
			all = append(all, []string{"--events", queue + url})
		}
	}
	for _, setting := range []string{"--upstream", "WEIR_JWT_URL", "--analytics"} {
		for _, url := range []string{"http://user:" + secret + "@127.0.0.1:1/", "https://" + secret + "@127.0.0.1:1/", "https://127.0.0.1:1/x?api_key=" + secret, "ftp://user:" + secret + "@127.0.0.1:1", "http://user:" + secret + "@127.0.0.1:port",
			"postgres://user:" + secret + "@127.0.0.1:1/weir", "postgres://127.0.0.1:1/weir?password=" + secret} {
			all = append(all, []string{setting, url})
		}
	}
	for _, args := range all {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			said := firstWords{heard: func() { time.AfterFunc(time.Second, cancel) }}
			cmd := exec.CommandContext(ctx, binary, append([]string{"serve", "--limit", "5/minute by ip", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--grpc", "", "--log-level", "debug"}, args...)...)
			if strings.HasPrefix(args[0], "WEIR_") {
				cmd.Env = append(cmd.Environ(), args[0]+"="+args[1], "WEIR_USER_FROM=jwt:sub")
				cmd.Args = cmd.Args[:len(cmd.Args)-len(args)]
			}
			cmd.Stdout, cmd.Stderr = &said, &said
			_ = cmd.Run() // it fails, or is ended
			if said.Len() == 0 || strings.Contains(said.String(), secret) {
				t.Errorf("it says:\n%s", said.String())
			}
		})
	}
}

// firstWords keeps what is written, and tells when the first of it is.
type firstWords struct {
	bytes.Buffer
	heard func()
}

func (w *firstWords) Write(b []byte) (int, error) {
	if w.Len() == 0 {
		w.heard()
	}
	return w.Buffer.Write(b)
}
