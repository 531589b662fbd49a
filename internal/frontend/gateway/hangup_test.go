package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/hangup"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// Whoever hangs up is counted, however and whenever: what a request was charged is not
// given back because its client has made that nobody knows how it ended, and what was
// sent until then is charged.
func TestFamilyHangingUpIsCounted(t *testing.T) {
	limits := weir.Limits{
		settled("failures", weir.Adjustment{CountOn: codes(401)}),
		settled("fair", weir.Adjustment{RefundOn: codes(500, weir.NoAnswer)}),
		settled("bytes", weir.Adjustment{Per: 500, RefundOn: codes(500, weir.NoAnswer)}),
	}
	for _, l := range limits {
		l.Count = hangup.Count
	}
	lim, err := weir.New(clocked.New(t), limits, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := new(hangup.Handler)
	up := start(t, h, false)
	g := forwardTo(t, lim, up.URL)
	hangup.Counted(t, lim, "api", g, h, func(served http.Handler) string { return strings.TrimPrefix(start(t, served, false).URL, "http://") })
}

// A client that takes the response so slowly that time is up is counted too.
func TestSlowReadersAreCounted(t *testing.T) {
	l := settled("fair", weir.Adjustment{RefundOn: codes(500, weir.NoAnswer)})
	lim, err := weir.New(clocked.New(t), weir.Limits{l}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	late := make(chan struct{}, 1)
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				late <- struct{}{}
				return
			}
		}
	}), false)
	upstream, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Limits: httplimit.Options{Limiter: lim}, Default: gateway.Forward{Upstream: upstream, Timeout: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{}, 1)
	srv := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		g.ServeHTTP(w, r)
	}), false)
	for _, protocol := range []string{"HTTP/1.1", "h2c"} {
		res, err := speaking(t, protocol).Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		<-late // the gateway has given the upstream up, and now the client reads on
		_, _ = io.Copy(io.Discard, res.Body)
		<-ended
		res.Body.Close()
	}
	req := &weir.Request{Domain: "api", Verb: weir.Peek, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "remote_address", Value: "127.0.0.1"}}}}}
	if d, err := lim.Decide(context.Background(), req); err != nil || d.Remaining != 998 {
		t.Errorf("%d of 1000 are left, want 998; %v", d.Remaining, err)
	}
}
