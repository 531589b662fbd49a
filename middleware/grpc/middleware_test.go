package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/servertest"
	grpclimit "github.com/weirlimit/weir/middleware/grpc"
	"github.com/weirlimit/weir/rules"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// echo is a service with a call and a stream, which do what a test says.
type echo struct {
	do   func(ctx context.Context, in string) (string, error)
	flow func(grpc.ServerStream) error
}

var flow = grpc.StreamDesc{StreamName: "Flow", ClientStreams: true, ServerStreams: true}

var echoDesc = grpc.ServiceDesc{
	ServiceName: "test.Echo", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Do", Handler: func(srv any, ctx context.Context, dec func(any) error, chain grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := dec(in); err != nil {
			return nil, err
		}
		handler := func(ctx context.Context, req any) (any, error) {
			out, err := srv.(*echo).do(ctx, req.(*wrapperspb.StringValue).Value)
			if err != nil {
				return nil, err
			}
			return wrapperspb.String(out), nil
		}
		if chain == nil {
			return handler(ctx, in)
		}
		return chain(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/test.Echo/Do"}, handler)
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Flow", ClientStreams: true, ServerStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
		return srv.(*echo).flow(s)
	}}},
}

// desk is a server behind limits on a store whose time is the test's.
type desk struct {
	t     *testing.T
	store *clocked.Store
	conn  *grpc.ClientConn
	log   *strings.Builder
	echo  *echo
}

// limiter decides by descriptors of a file on a store of its own.
func limiter(t *testing.T, descriptors string) (*weir.Limiter, *clocked.Store) {
	t.Helper()
	domain := "api"
	if strings.Contains(descriptors, "key: host") {
		domain = "outgoing"
	}
	set, err := rules.Parse("test.yaml", []byte("domain: "+domain+"\ndescriptors:\n"+descriptors), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := clocked.New(t)
	l, err := weir.New(store, set, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l, store
}

func newDesk(t *testing.T, descriptors string, change func(*grpclimit.Options), dial ...grpc.DialOption) *desk {
	t.Helper()
	l, store := limiter(t, descriptors)
	d := &desk{t: t, store: store, log: new(strings.Builder), echo: &echo{
		do: func(_ context.Context, in string) (string, error) { return in, nil },
		flow: func(s grpc.ServerStream) error {
			for {
				m := new(wrapperspb.StringValue)
				if err := s.RecvMsg(m); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if err := s.SendMsg(m); err != nil {
					return err
				}
			}
		}}}
	opt := grpclimit.Options{Limiter: l, Log: slog.New(slog.NewTextHandler(d.log, nil))}
	if change != nil {
		change(&opt)
	}
	m, err := grpclimit.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	d.conn = serve(t, d.echo, []grpc.ServerOption{grpc.ChainUnaryInterceptor(recovered, m.Unary), grpc.ChainStreamInterceptor(m.Stream)}, dial...)
	return d
}

// recovered keeps a handler that panics from ending the test.
func recovered(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (res any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Error(codes.Internal, "panicked")
		}
	}()
	return next(ctx, req)
}

// serve serves e and returns a connection to it.
func serve(t *testing.T, e *echo, opts []grpc.ServerOption, dial ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	s := grpc.NewServer(opts...)
	s.RegisterService(&echoDesc, e)
	healthpb.RegisterHealthServer(s, health.NewServer())
	ln := servertest.Listen(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	conn, err := grpc.NewClient(ln.Addr().String(), append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// call calls Do, for ten seconds at most, and returns the trailer.
func call(t *testing.T, conn *grpc.ClientConn, in string, pairs ...string) (metadata.MD, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), pairs...), time.Minute)
	defer cancel()
	var trailer metadata.MD
	err := conn.Invoke(ctx, "/test.Echo/Do", wrapperspb.String(in), new(wrapperspb.StringValue), grpc.Trailer(&trailer))
	return trailer, err
}

func (d *desk) call(in string, pairs ...string) (metadata.MD, error) {
	d.t.Helper()
	return call(d.t, d.conn, in, pairs...)
}

// left returns how many more calls pass now, and spends them.
func (d *desk) left() int {
	d.t.Helper()
	for n := range 1000 {
		if _, err := d.call("x"); err != nil {
			if status.Code(err) != codes.ResourceExhausted {
				d.t.Fatal(err)
			}
			return n
		}
	}
	d.t.Fatal("no limit")
	return 0
}

const perMinute = "- {key: remote_address, limits: [{limit: 3/minute, name: per_minute, algorithm: fixed_window}]}\n"

func TestRefusal(t *testing.T) {
	d := newDesk(t, perMinute, nil)
	trailer, err := d.call("x")
	if err != nil || trailer.Get("ratelimit")[0] != `"per_minute";r=2;t=40` || len(trailer.Get("retry-after")) != 0 {
		t.Errorf("passed: %v, %v", trailer, err)
	}
	if n := d.left(); n != 2 {
		t.Errorf("%d more passed", n)
	}
	d.store.Advance(500 * time.Millisecond)
	trailer, err = d.call("x")
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted || trailer.Get("retry-after")[0] != "40" || trailer.Get("grpc-retry-pushback-ms")[0] != "39500" {
		t.Errorf("refused: %v, %v", trailer, err)
	}
	if want := "the limit per_minute is exhausted; try again in 40 seconds"; st.Message() != want {
		t.Errorf("refused: %q, want %q", st.Message(), want)
	}
	var retry *errdetails.RetryInfo
	var quota *errdetails.QuotaFailure
	var info *errdetails.ErrorInfo
	for _, x := range st.Details() {
		switch x := x.(type) {
		case *errdetails.RetryInfo:
			retry = x
		case *errdetails.QuotaFailure:
			quota = x
		case *errdetails.ErrorInfo:
			info = x
		}
	}
	if retry == nil || retry.RetryDelay.AsDuration() != 39500*time.Millisecond {
		t.Errorf("retry info %v", retry)
	}
	if quota == nil || len(quota.Violations) != 1 {
		t.Fatalf("quota failure %v", quota)
	}
	if v := quota.Violations[0]; v.QuotaId != "per_minute" || v.QuotaValue != 3 || v.QuotaMetric != "requests" || v.ApiService != "api" ||
		v.QuotaDimensions["algorithm"] != "fixed_window" || v.QuotaDimensions["period"] != "1m0s" || strings.Contains(v.String(), "127.0.0.1") {
		t.Errorf("violation %v", v)
	}
	if info == nil || info.Reason != grpclimit.Reason || info.Domain != grpclimit.ErrorDomain || info.Metadata["limit"] != "per_minute" {
		t.Errorf("error info %v", info)
	}
	// Health is asked as often as anybody likes.
	if _, err := healthpb.NewHealthClient(d.conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
}

func TestHiddenRefusal(t *testing.T) {
	d := newDesk(t, strings.Replace(perMinute, "}]", ", hidden: true}]", 1), nil)
	d.left()
	trailer, err := d.call("x")
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted || st.Message() != "too many requests; try again in 40 seconds" || trailer.Get("retry-after")[0] != "40" {
		t.Errorf("refused: %v, %v", trailer, err)
	}
	if said := fmt.Sprint(trailer, st.Proto()); strings.Contains(said, "per_minute") || strings.Contains(said, "fixed_window") {
		t.Errorf("clients are told %s", said)
	}
}

func TestNeverRetries(t *testing.T) {
	d := newDesk(t, perMinute, func(o *grpclimit.Options) { o.Cost = func(context.Context, string, any) int64 { return 4 } })
	trailer, err := d.call("x")
	if status.Code(err) != codes.ResourceExhausted || trailer.Get("grpc-retry-pushback-ms")[0] != "-1" || len(trailer.Get("retry-after")) != 0 {
		t.Errorf("%v, %v", trailer, err)
	}
	if got, want := status.Convert(err).Message(), "the request costs more than its limit can ever hold"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// grpc-go's own retries obey the pushback.
func TestPushbackIsObeyed(t *testing.T) {
	d := newDesk(t, "- {key: remote_address, limits: [{limit: 1/minute, algorithm: fixed_window}]}\n", nil, grpc.WithDefaultServiceConfig(
		`{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.01s","maxBackoff":"0.01s","backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED"]}}]}`))
	if _, err := d.call("x"); err != nil {
		t.Fatal(err)
	}
	d.store.Advance(40*time.Second - 100*time.Millisecond)
	began := time.Now()
	// The store's time stands: the retry is refused again, but it comes as late as
	// it was told.
	if _, err := d.call("x"); status.Code(err) != codes.ResourceExhausted {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("two retries within %s, though told to wait 100ms each time", took)
	}
}

func TestIdentity(t *testing.T) {
	r, err := identity.New(identity.Options{Proxies: identity.ProxyOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Header: "X-Forwarded-For"}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := r.Plan([]identity.Descriptor{{Entries: []identity.EntryFrom{{Key: "remote_address", From: "remote_address"}}},
		{Entries: []identity.EntryFrom{{Key: "path", From: "path"}, {Key: "who", From: "header:X-Who"}}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	d := newDesk(t, perMinute, func(o *grpclimit.Options) {
		o.Identity, o.Plan = r, plan
		o.Descriptors = func(_ context.Context, method string, w *weir.Request) {
			got = append(got, method)
			for _, d := range w.Descriptors {
				for _, e := range d.Entries {
					got = append(got, e.Key+"="+strings.Clone(e.Value))
				}
			}
		}
	})
	if _, err := d.call("x", "x-forwarded-for", "203.0.113.7", "x-who", "alice"); err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, " "); s != "/test.Echo/Do remote_address=203.0.113.7 path=/test.Echo/Do who=alice" {
		t.Errorf("asked about %s", s)
	}
}

func TestStreams(t *testing.T) {
	open := func(d *desk, messages int) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, err := d.conn.NewStream(ctx, &flow, "/test.Echo/Flow")
		if err != nil {
			return err
		}
		for range messages {
			if err := s.SendMsg(wrapperspb.String("m")); err != nil && err != io.EOF {
				return err
			}
			if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
				return err
			}
		}
		if err := s.CloseSend(); err != nil {
			return err
		}
		if err := s.RecvMsg(new(wrapperspb.StringValue)); err != io.EOF {
			return err
		}
		return nil
	}
	d := newDesk(t, perMinute, nil)
	if err := open(d, 20); err != nil {
		t.Errorf("charged when it opens alone: %v", err)
	}
	if n := d.left(); n != 2 {
		t.Errorf("%d left of 3", n)
	}
	if err := open(d, 0); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
	d = newDesk(t, perMinute, func(o *grpclimit.Options) { o.PerMessage = true })
	if err := open(d, 1); err != nil {
		t.Errorf("one message: %v", err)
	}
	if err := open(d, 1); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("opened and one message, of one: %v", err)
	}
}

// A place is held as long as the call, whatever becomes of it.
func TestLeases(t *testing.T) {
	const one = "- {key: remote_address, limits: [{limit: 1, name: one, algorithm: concurrency, ttl: 1m}]}\n"
	d := newDesk(t, one, nil)
	began, let := make(chan struct{}), make(chan struct{})
	d.echo.do = func(_ context.Context, in string) (string, error) {
		switch in {
		case "hold":
			began <- struct{}{}
			<-let
		case "panic":
			panic("broken")
		case "fail":
			return "", status.Error(codes.NotFound, "none")
		}
		return in, nil
	}
	done := make(chan error)
	go func() { _, err := d.call("hold"); done <- err }()
	<-began
	// Not as long as a lease lives: how long the call will take is not known.
	trailer, err := d.call("x")
	if status.Code(err) != codes.ResourceExhausted || trailer.Get("retry-after")[0] != "1" || trailer.Get("grpc-retry-pushback-ms")[0] != "1000" {
		t.Errorf("beside a call under way: %v, %v", err, trailer)
	}
	if err := func() error {
		s, err := d.conn.NewStream(t.Context(), &flow, "/test.Echo/Flow")
		if err != nil {
			return err
		}
		return s.RecvMsg(new(wrapperspb.StringValue))
	}(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a stream beside a call under way: %v", err)
	}
	close(let)
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, in := range []string{"x", "fail", "panic", "x"} {
		if _, err := d.call(in); status.Code(err) == codes.ResourceExhausted {
			t.Errorf("%s: the place before was not given back", in)
		}
	}
	// A client that hangs up.
	ctx, cancel := context.WithCancel(t.Context())
	s, err := d.conn.NewStream(ctx, &flow, "/test.Echo/Flow")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(wrapperspb.String("m")); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
		t.Fatal(err)
	}
	cancel()
	servertest.Await(t, "the place to be given back", func() bool { _, err := d.call("x"); return err == nil })
}

// What does not count by its answer is given back.
func TestSettlement(t *testing.T) {
	d := newDesk(t, "- {key: remote_address, limits: [{limit: 3/minute, algorithm: fixed_window, count_on: [404]}]}\n", nil)
	d.echo.do = func(_ context.Context, in string) (string, error) {
		if in == "none" {
			return "", status.Error(codes.NotFound, "none")
		}
		return in, nil
	}
	for range 10 {
		if _, err := d.call("x"); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := d.call("none"); status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
	}
	if _, err := d.call("x"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("after three that count: %v", err)
	}
	// The trailer says what it cost.
	d = newDesk(t, "- {key: remote_address, limits: [{limit: 10/minute, algorithm: fixed_window, cost_from: 'response_header:X-Cost'}]}\n", nil)
	d.echo.do = func(ctx context.Context, in string) (string, error) {
		return in, grpc.SetTrailer(ctx, metadata.Pairs("x-cost", in))
	}
	for _, cost := range []string{"4", "6"} {
		if trailer, err := d.call(cost); err != nil || trailer.Get("x-cost")[0] != cost {
			t.Fatal(trailer, err)
		}
	}
	if _, err := d.call("1"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("after ten units: %v", err)
	}
	// The bytes of the answer.
	d = newDesk(t, "- {key: remote_address, limits: [{limit: 100/minute, algorithm: fixed_window, cost_from: response_bytes}]}\n", nil)
	if _, err := d.call(strings.Repeat("x", 98)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.call("x"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("after a hundred bytes: %v", err)
	}
}

// Whoever cancels a call, or lets its deadline pass, is counted, whatever the handler makes
// of it, and of a call that is not canceled what does not count is given back.
func TestFamilyHangingUpIsCounted(t *testing.T) {
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Internal, codes.Unavailable, codes.OK, codes.NotFound} {
		d := newDesk(t, "- {key: remote_address, limits: [{limit: 3/minute, algorithm: fixed_window, count_on: [404]}]}\n", nil)
		came, left, ended := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
		d.echo.do = func(ctx context.Context, in string) (string, error) {
			if in == "stay" {
				return in, nil
			}
			defer func() { ended <- struct{}{} }()
			came <- struct{}{}
			<-ctx.Done()
			<-left // else a server that sees the deadline first answers within it
			return in, status.Error(code, "gone")
		}
		for i := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			if i == 1 {
				ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
			}
			go func() {
				defer func() { left <- struct{}{} }()
				if err := d.conn.Invoke(ctx, "/test.Echo/Do", wrapperspb.String("x"), new(wrapperspb.StringValue)); err == nil {
					t.Error("answered")
				}
			}()
			<-came
			if i != 1 {
				cancel()
			}
			<-ended
			cancel()
			for range 2 {
				if _, err := d.call("stay"); i < 2 && err != nil {
					t.Errorf("%s: what does not count: %v", code, err)
				}
			}
		}
		servertest.Await(t, "the last to be counted", func() bool { _, err := d.call("stay"); return status.Code(err) == codes.ResourceExhausted })
	}
}

func TestDelay(t *testing.T) {
	d := newDesk(t, "- {key: remote_address, limits: [{limit: 20/second, algorithm: leaky_queue}]}\n", func(o *grpclimit.Options) { o.MaxDelay = 120 * time.Millisecond })
	began := time.Now()
	for i := range 3 { // at 0, 50 and 100 ms
		if _, err := d.call("x"); err != nil {
			t.Fatal(i, err)
		}
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("held back for %s", took)
	}
	if trailer, err := d.call("x"); status.Code(err) != codes.ResourceExhausted || trailer.Get("retry-after")[0] != "1" {
		t.Errorf("too long to wait: %v, %v", trailer, err)
	}
	d.store.Advance(50 * time.Millisecond)
	if _, err := d.call("x"); err != nil {
		t.Errorf("the place of the one refused was not given back: %v", err)
	}
}

// A message that would have to wait too long ends its stream, and is not counted.
func TestDelayOfMessages(t *testing.T) {
	d := newDesk(t, "- {key: remote_address, limits: [{limit: 20/second, algorithm: leaky_queue}]}\n", func(o *grpclimit.Options) {
		o.MaxDelay, o.PerMessage = 20*time.Millisecond, true
	})
	s, err := d.conn.NewStream(t.Context(), &flow, "/test.Echo/Flow")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(wrapperspb.String("m")); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(new(wrapperspb.StringValue)); status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("got %v", err)
	}
	d.store.Advance(50 * time.Millisecond)
	if _, err := d.call("x"); err != nil {
		t.Errorf("the place of the message was not given back: %v", err)
	}
}

func TestStoreFails(t *testing.T) {
	d := newDesk(t, perMinute, nil)
	d.store.Fail = errors.New("secret address refused")
	if _, err := d.call("x"); status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(d.log.String(), "secret address") {
		t.Errorf("logged %q", d.log)
	}
	d = newDesk(t, perMinute, func(o *grpclimit.Options) {
		o.OnError = func(context.Context, string, error) error { return nil }
	})
	d.store.Fail = errors.New("gone")
	if _, err := d.call("x"); err != nil {
		t.Errorf("open: %v", err)
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	l, _ := limiter(t, perMinute)
	for _, opt := range []grpclimit.Options{{}, {Limiter: l, MaxDelay: -1}, {Limiter: l, MaxWaiting: -1}, {Limiter: l, Plan: &identity.Plan{}}} {
		if _, err := grpclimit.New(opt); err == nil {
			t.Errorf("%+v was accepted", opt)
		}
	}
	for _, opt := range []grpclimit.ClientOptions{{}, {Limiter: l, MaxWaiting: -1}} {
		if _, err := grpclimit.NewClient(opt); err == nil {
			t.Errorf("%+v was accepted", opt)
		}
	}
}
