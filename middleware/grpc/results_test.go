package grpclimit_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/witness"
	grpclimit "github.com/weirlimit/weir/middleware/grpc"
)

// Observers are told who called and how calls ended.
func TestResults(t *testing.T) {
	seen, sent := witness.New(), witness.New()
	limited := func(w *witness.Witness, n int64) *weir.Limiter {
		lim, err := weir.New(clocked.New(t), weir.Limits{weir.PerMinute(n, algorithm.FixedWindow)}, weir.Options{Observers: []weir.Observer{w}})
		if err != nil {
			t.Fatal(err)
		}
		return lim
	}
	out, err := grpclimit.NewClient(grpclimit.ClientOptions{Limiter: limited(sent, 100)})
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, "- key: remote_address\n  rate_limit: {unit: minute, requests_per_unit: 100}\n", func(o *grpclimit.Options) {
		o.Limiter, o.PerMessage = limited(seen, 6), true
	}, grpc.WithChainUnaryInterceptor(out.Unary), grpc.WithUserAgent("tester/1"))
	d.echo.do = func(ctx context.Context, in string) (string, error) {
		switch in {
		case "denied":
			return "", status.Error(codes.PermissionDenied, "no")
		case "panic":
			panic("broken")
		}
		return in, nil
	}
	check := func(what string, got []string, want ...string) {
		t.Helper()
		for i := range got {
			got[i] = strings.Replace(got[i], d.conn.Target(), "TARGET", 1)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: told %q\nwant %q", what, got, want)
		}
	}
	who := func(method string) string {
		return "127.0.0.1 POST 127.0.0.1 /test.Echo/" + method + "   tester/1 grpc-go/" + grpc.Version
	}
	for _, c := range []struct {
		in   string
		code string
		sent string
	}{{"ok", "200", "200"}, {"denied", "403", "403"}, {"panic", "0", "500"}} {
		_, _ = d.call(c.in)
		check(c.in, seen.Wait(2), "allowed: "+who("Do"), "ended: "+c.code+": "+who("Do"))
		check(c.in+" sent", sent.Wait(2), "allowed: unknown", "ended: "+c.sent+": unknown")
	}
	// A stream: its messages are decided too, and have no end of their own.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := d.conn.NewStream(ctx, &flow, "/test.Echo/Flow")
	if err != nil {
		t.Fatal(err)
	}
	m := wrapperspb.String("x")
	if err := s.SendMsg(m); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(m); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	_ = s.RecvMsg(m)
	check("stream", seen.Wait(3), "allowed: "+who("Flow"), "allowed: "+who("Flow"), "ended: 200: "+who("Flow"))
	_, _ = d.call("ok")
	check("last", seen.Wait(2), "allowed: "+who("Do"), "ended: 200: "+who("Do"))
	_, _ = d.call("ok")
	check("too many", seen.Wait(1), "refused: "+who("Do"))
}
