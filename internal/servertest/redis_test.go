package servertest_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/servertest"
)

func TestRedis(t *testing.T) {
	s := servertest.RedisPassword(t, "secret")
	if got := s.Do(t, "SET", "k", "v"); got != "OK" {
		t.Errorf("SET: %v", got)
	}
	if _, err := s.Try("NONSENSE"); err == nil {
		t.Error("an unknown command gave no error")
	}
	s.Kill(t)
	if _, err := s.Try("PING"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	if got := s.Do(t, "GET", "k"); got != nil {
		t.Errorf("after a restart: %v", got)
	}
}

func TestRedisTLS(t *testing.T) {
	cert, key, pair := servertest.Certificate(t, t.TempDir(), "redis")
	s := servertest.RedisTLS(t, cert, key, pair)
	if got := s.Do(t, "PING"); got != "PONG" {
		t.Errorf("PING: %v", got)
	}
}
