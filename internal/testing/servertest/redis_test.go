package servertest_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestRedis(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	cert, key, pair := servertest.Certificate(t, t.TempDir(), "redis")
	s := servertest.RedisTLS(t, cert, key, pair)
	if got := s.Do(t, "PING"); got != "PONG" {
		t.Errorf("PING: %v", got)
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t, 3)
	if got := nodes[0].Fact(t, "cluster_enabled"); got != "1" {
		t.Errorf("cluster_enabled %q", got)
	}
}

func TestRedisSentinels(t *testing.T) {
	t.Parallel()
	primary, _, sentinels := servertest.RedisSentinels(t)
	if got := primary.Fact(t, "connected_slaves"); got != "1" || len(sentinels) != 3 {
		t.Errorf("%s replicas and %d Sentinels", got, len(sentinels))
	}
}

func TestRedisClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-5 * time.Second, 5 * time.Second} {
		s := servertest.RedisClock(t, ahead)
		reply, ok := s.Do(t, "TIME").([]any)
		if !ok || len(reply) != 2 {
			t.Fatalf("TIME: %v", reply)
		}
		seconds, err := strconv.ParseInt(fmt.Sprint(reply[0]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		off := time.Until(time.Unix(seconds, 0)) - ahead
		if off < -3*time.Second || off > 3*time.Second {
			t.Errorf("a clock that is to be ahead by %s is off that by %s", ahead, off)
		}
	}
}
