package resp

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/shared"
)

// node returns a server whose counters are in a Redis that others share.
func node(t *testing.T, addr string) *bench {
	t.Helper()
	store, err := redis.Open(context.Background(), "redis://"+addr+"?timeout=10s", redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	local := memory.New(memory.Options{MaxBytes: memory.MinBytes})
	both, err := shared.New(store, shared.Options{Local: local, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		both.Close()
		store.Close()
		local.Close()
	})
	l, err := weir.New(both, weir.Limits{}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return newBench(t, Options{Limiter: l, Keyring: store, Check: redis.Check, Parallel: MaxParallel})
}

// TestOnRedis: nodes that share a Redis count together, exactly, with the same
// numbers and with others; pipelines keep their order.
func TestOnRedis(t *testing.T) {
	r := servertest.Redis(t)
	a, b := connect(t, node(t, r.Addr).listen(t)), connect(t, node(t, r.Addr).listen(t))
	f := func(c *client, want string, words ...string) {
		t.Helper()
		if got := c.do(words...); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s...", words, got, want)
		}
	}
	// Two minutes a unit: none flows back while the test runs.
	f(a, "*5|:0|:16|:6|:-1|:1200", "CL.THROTTLE", "k", "15", "30", "3600", "10")
	f(b, "*5|:0|:16|:0|:-1|:19", "CL.THROTTLE", "k", "15", "30", "3600", "6")
	f(a, "*5|:1|:16|:0|:1", "CL.THROTTLE", "k", "15", "30", "3600")
	f(b, "*5|:0|:16|:0|:-1|:19", "CL.THROTTLE", "k", "15", "30", "3600", "0")
	f(b, "*5|:1|:16|:16|:-1|:0", "CL.THROTTLE", "never", "15", "30", "3600", "17")
	// Other numbers find what is owed; a rate without a fraction of a microsecond,
	// and one with.
	f(a, "*5|:1|:1|:0|:19", "CL.THROTTLE", "k", "0", "10", "1")
	f(a, "*5|:1|:1|:0|:19", "CL.THROTTLE", "k", "0", "700001", "1")
	f(b, "*5|:0|:1000|:98", "CL.THROTTLE", "k", "999", "30", "3600", "1")
	f(b, ":20", "TTL", "k")
	f(a, "+OK", "SELECT", "1")
	f(a, ":-2", "TTL", "k")
	f(a, "+OK", "SELECT", "0")
	f(a, ":1", "DEL", "k", "none")
	f(b, ":-2", "TTL", "k")
	f(b, "*5|:0|:16|:15|:-1|:120", "CL.THROTTLE", "k", "15", "30", "3600")

	a.send(bytes.Repeat(wire("CL.THROTTLE", "pipeline", "99", "30", "3600"), 50))
	var others []byte
	for i := range 50 {
		others = append(others, wire("CL.THROTTLE", fmt.Sprint("other ", i), "99", "30", "3600")...)
		others = append(others, wire("ECHO", fmt.Sprint(i))...)
	}
	b.send(others)
	for i := range 50 {
		if got, want := a.reply(), fmt.Sprintf("*5|:0|:100|:%d|:-1|", 99-i); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
		if got := b.reply(); got != "*5|:0|:100|:99|:-1|:120" {
			t.Error(got)
		}
		if got, want := b.reply(), fmt.Sprintf("$%d|%d", len(fmt.Sprint(i)), i); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
