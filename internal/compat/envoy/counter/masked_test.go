package counter_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/compat/envoy/counter"
)

func TestMasked(t *testing.T) {
	for url, want := range map[string]string{
		"redis:6379":                             "redis:6379",
		"main,redis://u:p@a:1,redis://u:p@q@b:2": "main,redis://*****@a:1,redis://*****@b:2",
		"user:secret@host:6379":                  "*****@host:6379",
		"/run/redis.sock":                        "/run/redis.sock",
	} {
		if got := counter.Masked(url); got != want {
			t.Errorf("%s becomes %s, want %s", url, got, want)
		}
	}
}
