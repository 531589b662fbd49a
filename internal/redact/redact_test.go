package redact

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestURL(t *testing.T) {
	for url, want := range map[string]string{
		"redis://127.0.0.1:6379/0":                              "redis://127.0.0.1:6379/0",
		"redis://ann:pa@h:1/0?timeout=5ms":                      "redis://xxxxx@h:1/0?timeout=5ms",
		"redis://token@h":                                       "redis://xxxxx@h",
		"redis+sentinel://u:p@a:1,b:2/main?sentinel_password=x": "redis+sentinel://xxxxx@a:1,b:2/main?sentinel_password=xxxxx",
		"main,redis://u:p@a:1,redis://u:p@q@b:2":                "main,redis://xxxxx@a:1,redis://xxxxx@b:2",
		"user:secret@host:6379":                                 "xxxxx@host:6379",
		"/run/redis.sock":                                       "/run/redis.sock",
		"redis:6379":                                            "redis:6379",
		"https://h/jwks?tenant=a&access_token=x":                "https://h/jwks?tenant=a&access_token=xxxxx",
		"https://h/jwks?x":                                      "https://h/jwks?xxxxx",
		"":                                                      "",
	} {
		if got := URL(url); got != want {
			t.Errorf("%s becomes %s, want %s", url, got, want)
		}
	}
}

// Whatever a password is made of, nothing of it is left.
func TestNothingOfAPasswordIsLeft(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		secret := []byte("S")
		for range r.IntN(8) {
			secret = append(secret, "S/?#@:,&=% Z"[r.IntN(12)])
		}
		for _, url := range []string{"redis://ann:" + string(secret) + "@h:1/0", "redis://h:1,ann:" + string(secret) + "@i:2?timeout=1s", string(secret) + "@h", "main,redis://a:" + string(secret) + "@h:1,redis://b:1"} {
			if got := URL(url); strings.ContainsAny(got, "SZ") {
				t.Fatalf("%s becomes %s", url, got)
			}
		}
	}
}
