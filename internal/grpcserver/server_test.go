package grpcserver

import (
	"context"
	"crypto/tls"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// echo is a service whose one method does what a test says.
type echo struct {
	answer func(ctx context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)
}

const method = "/test.Echo/Do"

var echoDesc = grpc.ServiceDesc{
	ServiceName: "test.Echo", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Do", Handler: func(srv any, ctx context.Context, dec func(any) error, chain grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.BytesValue)
		if err := dec(in); err != nil {
			return nil, err
		}
		return chain(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: method}, func(ctx context.Context, req any) (any, error) {
			return srv.(*echo).answer(ctx, req.(*wrapperspb.BytesValue))
		})
	}}},
}

// running is a server under test.
type running struct {
	*Server
	addr string
	// end ends the context of Serve.
	end context.CancelFunc
	// ended gives what Serve returned.
	ended chan error
}

// serve starts a server of echo; answer is nil for one that repeats.
func serve(t *testing.T, opt Options, answer func(context.Context, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)) *running {
	t.Helper()
	if answer == nil {
		answer = func(_ context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) { return in, nil }
	}
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	s.RegisterService(&echoDesc, &echo{answer})
	ln := servertest.Listen(t)
	ctx, end := context.WithCancel(context.Background())
	r := &running{Server: s, addr: ln.Addr().String(), end: end, ended: make(chan error, 1)}
	done := make(chan struct{})
	go func() { r.ended <- s.Serve(ctx, ln); close(done) }()
	t.Cleanup(func() { end(); <-done })
	return r
}

// dial connects to a server, in clear if conf is nil.
func (r *running) dial(t *testing.T, conf *tls.Config, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	creds := insecure.NewCredentials()
	if conf != nil {
		creds = credentials.NewTLS(conf)
	}
	c, err := grpc.NewClient(r.addr, append(opts, grpc.WithTransportCredentials(creds))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask calls Do with text, for ten seconds at most.
func ask(c *grpc.ClientConn, text string, opts ...grpc.CallOption) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out := new(wrapperspb.BytesValue)
	err := c.Invoke(ctx, method, wrapperspb.Bytes([]byte(text)), out, opts...)
	return string(out.Value), err
}

func TestHealthAndReflection(t *testing.T) {
	r := serve(t, Options{Health: []string{"ratelimit"}, Reflection: true}, nil)
	c := r.dial(t, nil)
	h := healthpb.NewHealthClient(c)
	state := func(service string) string {
		res, err := h.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			return status.Code(err).String()
		}
		return res.Status.String()
	}
	f := func(service, want string) {
		t.Helper()
		if got := state(service); got != want {
			t.Errorf("%q is %s, want %s", service, got, want)
		}
	}
	f("", "SERVING")
	f("ratelimit", "SERVING")
	f("other", "NotFound")
	r.SetServing("ratelimit", false)
	f("ratelimit", "NOT_SERVING")
	f("", "SERVING")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := reflectpb.NewServerReflectionClient(c).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	res, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if got := res.GetListServicesResponse().String(); !strings.Contains(got, "test.Echo") || !strings.Contains(got, "grpc.health.v1.Health") {
		t.Errorf("services: %s", got)
	}
}

func TestReflectionIsOffUnlessAskedFor(t *testing.T) {
	r := serve(t, Options{}, nil)
	stream, err := reflectpb.NewServerReflectionClient(r.dial(t, nil)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}

// A call under way when the server ends is answered; health has said that it is
// over before, and who watches health is not waited for.
func TestDrain(t *testing.T) {
	began, let := make(chan struct{}), make(chan struct{})
	r := serve(t, Options{Health: []string{"ratelimit"}, Delay: time.Second},
		func(_ context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
			close(began)
			<-let
			return in, nil
		})
	c := r.dial(t, nil)
	watch, err := healthpb.NewHealthClient(c).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := watch.Recv(); err != nil || res.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("health: %v, %v", res, err)
	}
	answered := make(chan error, 1)
	go func() { _, err := ask(c, "late"); answered <- err }()
	<-began
	r.end()
	if res, err := watch.Recv(); err != nil || res.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health when the server ends: %v, %v", res, err)
	}
	if _, err := watch.Recv(); err == nil {
		t.Error("the watch goes on")
	}
	close(let)
	if err := <-answered; err != nil {
		t.Errorf("the call under way: %v", err)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// Calls that do not end are cut, and Serve says so.
func TestDrainIsBounded(t *testing.T) {
	began := make(chan struct{})
	r := serve(t, Options{Drain: 50 * time.Millisecond},
		func(ctx context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
			close(began)
			<-ctx.Done()
			return nil, ctx.Err()
		})
	c := r.dial(t, nil)
	answered := make(chan error, 1)
	go func() { _, err := ask(c, ""); answered <- err }()
	<-began
	r.end()
	if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "calls cut") {
		t.Errorf("Serve: %v", err)
	}
	if err := <-answered; err == nil {
		t.Error("the call was answered")
	}
}

func TestServeOnce(t *testing.T) {
	r := serve(t, Options{}, nil)
	if _, err := ask(r.dial(t, nil), "x"); err != nil {
		t.Fatal(err)
	}
	ln := servertest.Listen(t)
	if err := r.Serve(t.Context(), ln); err == nil || !strings.Contains(err.Error(), "once") {
		t.Errorf("a second Serve: %v", err)
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	for _, opt := range []Options{{Drain: -1}, {MaxAge: -1}, {CallTimeout: -1}, {MaxCalls: -1}, {MaxConnections: -1}, {MaxMessage: -1}} {
		if _, err := New(opt); err == nil {
			t.Errorf("%+v was accepted", opt)
		}
	}
}

// A handler that panics costs its own call alone, and is logged.
func TestPanic(t *testing.T) {
	var logged servertest.Log
	r := serve(t, Options{Log: slog.New(slog.NewTextHandler(&logged, nil))},
		func(_ context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
			if string(in.Value) == "break" {
				panic("broken")
			}
			return in, nil
		})
	c := r.dial(t, nil)
	if _, err := ask(c, "break"); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "panic") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(logged.String(), "panic=broken") {
		t.Errorf("logged %q", logged.String())
	}
	if got, err := ask(c, "on"); got != "on" || err != nil {
		t.Errorf("the next call: %q, %v", got, err)
	}
}

// With TLS a renewed certificate is shown to the next client, and with
// authorities only their clients are let in, of the right name alone.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key, _ := servertest.Certificate(t, dir, "first")
	friend, _, pair := servertest.Certificate(t, t.TempDir(), "friend")
	_, _, stranger := servertest.Certificate(t, t.TempDir(), "stranger")
	open := func(san string) *certfile.Certificate {
		c, err := certfile.Open(certfile.Files{Cert: cert, Key: key, ClientCA: friend, ClientSAN: san}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	held := open("127.0.0.1")
	right := serve(t, Options{Certificate: held}, nil)
	wrong := serve(t, Options{Certificate: open("someone.example")}, nil)
	shown := ""
	with := func(r *running, certs ...tls.Certificate) error {
		c := r.dial(t, &tls.Config{InsecureSkipVerify: true, Certificates: certs, VerifyConnection: func(s tls.ConnectionState) error {
			shown = s.PeerCertificates[0].Subject.CommonName
			return nil
		}})
		_, err := ask(c, "x")
		return err
	}
	if err := with(right, pair); err != nil || shown != "first" {
		t.Errorf("a friend got %v, and was shown %q", err, shown)
	}
	if with(right) == nil || with(right, stranger) == nil {
		t.Error("a stranger was let in")
	}
	if with(wrong, pair) == nil {
		t.Error("a client of another name was let in")
	}
	servertest.Certificate(t, dir, "second")
	held.Reload()
	if err := with(right, pair); err != nil || shown != "second" {
		t.Errorf("after the renewal: %v, shown %q", err, shown)
	}
}

// withHeader adds a large field of metadata.
func withHeader(ctx context.Context, value string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-large", value)
}

// A server that ends while it is busy drops no call: clients that know another
// one notice nothing.
func TestDrainDropsNothing(t *testing.T) {
	ends, stays := serve(t, Options{Delay: 20 * time.Millisecond}, nil), serve(t, Options{}, nil)
	addrs := manual.NewBuilderWithScheme("two")
	addrs.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: ends.addr}, {Addr: stays.addr}}})
	c, err := grpc.NewClient("two:///", grpc.WithResolvers(addrs), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var calls atomic.Int64
	var clients sync.WaitGroup
	over := make(chan struct{})
	for range 8 {
		clients.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if _, err := ask(c, "x"); err != nil {
					t.Errorf("after %d calls: %v", calls.Load(), err)
					return
				}
				calls.Add(1)
			}
		})
	}
	servertest.Await(t, "the load", func() bool { return calls.Load() > 200 })
	ends.end()
	if err := <-ends.ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	n := calls.Load()
	servertest.Await(t, "the other server's answers", func() bool { return calls.Load() > n+200 })
	close(over)
	clients.Wait()
}
