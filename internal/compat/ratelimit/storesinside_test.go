package ratelimit

import "testing"

func TestMasked(t *testing.T) {
	for url, want := range map[string]string{
		"redis:6379":                             "redis:6379",
		"main,redis://u:p@a:1,redis://u:p@q@b:2": "main,redis://*****@a:1,redis://*****@b:2",
		"/run/redis.sock":                        "/run/redis.sock",
	} {
		if got := masked(url); got != want {
			t.Errorf("%s becomes %s, want %s", url, got, want)
		}
	}
}
