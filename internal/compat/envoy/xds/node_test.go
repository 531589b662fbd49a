package xds_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weirlimit/weir/internal/compat/envoy/xds"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// node is a client that runs, and the domains it has been given.
type node struct {
	*xds.Client
	t *testing.T

	mu      sync.Mutex
	domains []string
	applied int
	log     bytes.Buffer
	last    []*rlsconfv3.RateLimitConfig
	stop    func()
}

// startNode runs a client, with short waits unless opt has others.
func startNode(t *testing.T, opt xds.Options) *node {
	t.Helper()
	if opt.ConnectRetry == 0 {
		opt.ConnectRetry = 20 * time.Millisecond
	}
	if opt.Backoff == (xds.Backoff{}) {
		opt.Backoff = xds.Backoff{Initial: 10 * time.Millisecond, Max: 40 * time.Millisecond}
	}
	n := &node{t: t}
	opt.Log = slog.New(slog.NewTextHandler(n, nil))
	var err error
	if n.Client, err = xds.New(opt); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx, n.apply) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		if t.Failed() {
			t.Logf("the node said:\n%s", n.Log())
		}
	})
	t.Cleanup(n.stop)
	return n
}

// apply refuses a domain that is there twice, and one that is "bad".
func (n *node) apply(configs []*rlsconfv3.RateLimitConfig) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.applied++
	var domains []string
	for _, c := range configs {
		switch {
		case c.GetDomain() == "bad":
			return errors.New("the domain is bad")
		case slices.Contains(domains, c.GetDomain()):
			return fmt.Errorf("%s: duplicate domain '%s' in config file", c.GetName(), c.GetDomain())
		}
		domains = append(domains, c.GetDomain())
	}
	slices.Sort(domains)
	n.domains, n.last = domains, configs
	return nil
}

func (n *node) Domains() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.domains, " ")
}

func (n *node) Applied() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.applied
}

func (n *node) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(b)
}

func (n *node) Log() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.String()
}

// Streams returns how many were opened.
func (n *node) Streams() int {
	return strings.Count(n.Log(), `msg="connected to xDS management server"`)
}

func (n *node) AwaitDomains(want string) {
	n.t.Helper()
	servertest.Await(n.t, "domains "+want, func() bool { return n.Domains() == want })
}

func (n *node) AwaitLog(want string) {
	n.t.Helper()
	servertest.Await(n.t, "a log line with "+want, func() bool { return strings.Contains(n.Log(), want) })
}
