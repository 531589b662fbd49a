package identity_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// TestFamilyShortKeysAreReported: a known API key of fewer than 16 bytes is warned of
// once, wherever it is sent and however often, with its user and without the key. It is
// believed as before. Longer keys, and keys that are not known, are not warned of.
func TestFamilyShortKeysAreReported(t *testing.T) {
	r := rand.New(rand.NewPCG(seeds.Of(t), 1))
	runs := 3
	if os.Getenv("WEIR_SOAK") == "1" {
		runs = 300
	}
	places := map[string]func(key string) identity.Facts{
		"header:X-Api-Key": func(key string) identity.Facts { return identity.Facts{Header: http.Header{"X-Api-Key": {key}}} },
		"bearer": func(key string) identity.Facts {
			return identity.Facts{Header: http.Header{"Authorization": {"Bearer " + key}}}
		},
		"cookie:key": func(key string) identity.Facts { return identity.Facts{Header: http.Header{"Cookie": {"key=" + key}}} },
		"query:key":  func(key string) identity.Facts { return identity.Facts{Query: "key=" + url.QueryEscape(key)} },
	}
	for place, facts := range places {
		bubble.Test(t, func(t *testing.T) {
			for range runs {
				keys, rows := map[string]string{}, "" // user -> key
				for n := 4; n <= 40; n++ {
					random := make([]byte, n)
					for i := range random {
						random[i] = byte(r.Uint32())
					}
					user := fmt.Sprintf("user-%d", n)
					keys[user] = base64.RawURLEncoding.EncodeToString(random)[:n]
					rows += fmt.Sprintf("- {sha256: %s, user: %s}\n", identitytest.Digest(keys[user]), user)
				}
				var log bytes.Buffer
				resolver := identitytest.New(t, identity.Options{
					User: []string{"api_key"}, APIKey: identity.APIKeyOptions{From: []string{place}},
					Keys: identitytest.Keys(t, "keys.yaml", rows), Log: slog.New(slog.NewTextHandler(&log, nil)),
				})
				ask := func(key string) string {
					f := facts(key)
					f.Method, f.Path = "GET", "/"
					c := resolver.Acquire()
					defer c.Release()
					c.Set(f)
					return c.User()
				}
				for user, key := range keys {
					time.Sleep(time.Second)
					before := log.Len()
					for range 3 {
						if got := ask(key); got != user {
							t.Fatalf("%s: the key of %s is %q's", place, user, got)
						}
						time.Sleep(time.Second)
					}
					said := log.String()[before:]
					if want := min(1, max(0, 16-len(key))); strings.Count(said, "\n") != want || strings.Count(said, "user="+user+" ") != want {
						t.Errorf("%s: a key of %d bytes: want %d warnings, got %s", place, len(key), want, said)
					}
					if strings.Contains(said, key) || strings.Contains(said, identitytest.Digest(key)[:8]) {
						t.Errorf("%s: the key is in the log: %s", place, said)
					}
				}
				before := log.Len()
				if got := ask("guess"); got != "" {
					t.Errorf("%s: an unknown key is %q's", place, got)
				}
				if strings.Contains(log.String()[before:], "16 bytes") {
					t.Errorf("%s: a key that is not known: %s", place, log.String()[before:])
				}
			}
		})
	}
	// Many short keys at once are one line a second, and none is left out.
	bubble.Test(t, func(t *testing.T) {
		const many = 20
		rows := ""
		for i := range many {
			rows += fmt.Sprintf("- {sha256: %s, user: user-%d}\n", identitytest.Digest(fmt.Sprintf("demo-%d", i)), i)
		}
		var log bytes.Buffer
		resolver := identitytest.New(t, identity.Options{
			User: []string{"api_key"}, APIKey: identity.APIKeyOptions{From: []string{"header:X-Api-Key"}},
			Keys: identitytest.Keys(t, "keys.yaml", rows), Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		for second := range 2 * many {
			for i := range many {
				identify(resolver, identity.Facts{Method: "GET", Path: "/", Header: http.Header{"X-Api-Key": {fmt.Sprintf("demo-%d", i)}}})
			}
			if lines := strings.Count(log.String(), "\n"); lines != min(second+1, many) {
				t.Fatalf("%d lines after %d seconds", lines, second)
			}
			time.Sleep(time.Second)
		}
		for i := range many {
			if n := strings.Count(log.String(), fmt.Sprintf("user=user-%d ", i)); n != 1 {
				t.Errorf("user-%d is named %d times", i, n)
			}
		}
	})
}
