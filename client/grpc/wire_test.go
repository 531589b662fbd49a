package grpcclient_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/client"
	grpcclient "github.com/weirlimit/weir/client/grpc"
	"github.com/weirlimit/weir/internal/frontend/grpcapi"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/grpctest"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/rules"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const everything = `domain: api
descriptors:
- {key: client_id, limit: 10/minute}
- {key: bucket, limits: [{limit: 60/minute, name: bucket, algorithm: token_bucket, burst: 5}, {limit: 100/hour, algorithm: fixed_window}]}
- {key: soft, limit: 4/minute, mode: soft, exceed: 50%}
- {key: seen, limit: 1/minute, mode: shadow}
- {key: user, limits: [{limit: 2/minute, name: elastic, mode: elastic, pool: shared}]}
- {key: work, limits: [{limit: 2, name: work, algorithm: concurrency, ttl: 1m}]}
- {key: queue, limits: [{limit: 10/second, name: queue, algorithm: leaky_queue}]}
- {key: first, limit: 10/minute, headroom: [0, 5]}
deny: {ip: [10.0.0.1]}
pools:
  shared: {limit: 3/minute}
`

// wires returns the ways over gRPC and over HTTP, each to a service of its own
// with the same rules and a store whose time the test tells.
func wires(t *testing.T) (both [2]client.Wire, stores [2]*clocked.Store) {
	t.Helper()
	var limiters [2]*weir.Limiter
	var reservers [2]*reserve.Reserver
	for i := range stores {
		set, err := rules.Parse("test.yaml", []byte(everything), rules.Options{})
		if err != nil {
			t.Fatal(err)
		}
		stores[i] = clocked.New(t)
		if limiters[i], err = weir.New(stores[i], set, weir.Options{}); err != nil {
			t.Fatal(err)
		}
		if reservers[i], err = reserve.New(limiters[i], reserve.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := grpcapi.New(grpcapi.Options{Limiter: limiters[0], Reserver: reservers[0]})
	if err != nil {
		t.Fatal(err)
	}
	both[0] = dial(t, grpctest.Serve(t, grpcserver.Options{}, s.Register))
	api, err := httpapi.New(httpapi.Options{Limiter: limiters[1], Reserver: reservers[1]})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(api)
	t.Cleanup(web.Close)
	if both[1], err = client.NewHTTP(client.HTTPOptions{URL: web.URL}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { both[1].Close() })
	return both, stores
}

func dial(t *testing.T, addr string) client.Wire {
	t.Helper()
	w, err := grpcclient.New(grpcclient.Options{Target: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// anyKey returns an idempotency key of few, or none.
func anyKey(r *rand.Rand) string { return []string{"", "", "a", `b"\`, "c"}[r.IntN(5)] }

// random returns a check, which may be bad.
func random(r *rand.Rand) client.Check {
	keys := []string{"client_id", "bucket", "soft", "seen", "user", "work", "queue", "first", "ip", "other"}
	var k client.Check
	for range 1 + r.IntN(2) {
		d := weir.Descriptor{Entries: []weir.Entry{{Key: keys[r.IntN(len(keys))], Value: []string{"a", "b", "10.0.0.1", ""}[r.IntN(4)]}}}
		if r.IntN(8) == 0 {
			d.Cost = int64(r.IntN(4))
		}
		d.Peek = r.IntN(10) == 0
		k.Descriptors = append(k.Descriptors, d)
	}
	if r.IntN(3) == 0 {
		k.Cost = int64(r.IntN(13))
	}
	if r.IntN(4) == 0 {
		k.Priority = r.IntN(3)
	}
	if r.IntN(3) > 0 {
		k.Lease = fmt.Sprint("l", r.IntN(3))
	}
	if r.IntN(10) == 0 {
		k.Domain = []string{"api", "nowhere"}[r.IntN(2)]
	}
	switch r.IntN(60) {
	case 0:
		k.Descriptors = nil
	case 1:
		k.Descriptors[0].Entries = nil
	case 2:
		k.Descriptors[0].Entries[0].Key = strings.Repeat("k", 257)
	case 3:
		k.Cost = weir.MaxCost + 1
	}
	return k
}

// same fails unless two answers say the same.
func same(t *testing.T, what string, errs [2]error, got, want any) {
	t.Helper()
	var wrong [2]*client.Error
	for i, err := range errs {
		if err != nil && !errors.As(err, &wrong[i]) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if (wrong[0] == nil) != (wrong[1] == nil) || wrong[0] != nil && wrong[0].Status != wrong[1].Status {
		t.Fatalf("%s:\ngrpc %v\nhttp %v", what, errs[0], errs[1])
	}
	if wrong[0] == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\ngrpc %+v\nhttp %+v", what, got, want)
	}
}

// TestBothWays asks the same over both ways, and is told the same.
func TestBothWays(t *testing.T) {
	both, stores := wires(t)
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	ctx := t.Context()
	var handles [2][]string
	for range 1500 {
		if r.IntN(3) == 0 {
			d := time.Duration(r.Int64N(int64(5 * time.Second)))
			for _, s := range stores {
				s.Advance(d)
			}
		}
		k := random(r)
		var errs [2]error
		switch r.IntN(8) {
		case 0, 1, 2:
			peek := r.IntN(4) == 0
			k.IdempotencyKey = anyKey(r)
			var ds [2][]client.Decision
			for i, w := range both {
				ds[i], errs[i] = w.Decide(ctx, []client.Check{k}, peek)
			}
			same(t, fmt.Sprintf("check %+v peek %v", k, peek), errs, ds[0], ds[1])
		case 3, 4:
			ks := make([]client.Check, 2+r.IntN(5))
			for i := range ks {
				ks[i] = random(r)
				if r.IntN(2) == 0 { // rows of a table
					ks[i] = client.Of("api", weir.Entry{Key: "client_id", Value: string(rune('a' + r.IntN(3)))})
					ks[i].Cost = int64(r.IntN(3))
					ks[i].Descriptors[0].Peek = r.IntN(6) == 0
				}
			}
			var ds [2][]client.Decision
			for i, w := range both {
				ds[i], errs[i] = w.Decide(ctx, ks, false)
				for j := range ds[i] {
					ds[i][j].Limits = nil // batches over gRPC do not tell them
				}
			}
			same(t, fmt.Sprintf("batch %+v", ks), errs, ds[0], ds[1])
		case 5:
			k.Lease, k.IdempotencyKey = "", anyKey(r)
			var res [2]client.Decision
			var expires [2]time.Time
			for i, w := range both {
				var handle string
				res[i], handle, expires[i], errs[i] = w.Reserve(ctx, k)
				if errs[i] == nil && res[i].Allowed {
					handles[i] = append(handles[i], handle)
				}
			}
			same(t, fmt.Sprintf("reserve %+v", k), errs, res[0], res[1])
			if errs[0] == nil && res[0].Allowed && expires[0].Sub(expires[1]).Abs() > time.Microsecond {
				t.Fatalf("reserve %+v: expires %v and %v", k, expires[0], expires[1])
			}
		case 6:
			if len(handles[0]) == 0 {
				continue
			}
			at, actual := r.IntN(len(handles[0])), r.Int64N(8)-1
			var ss [2]client.Settlement
			for i, w := range both {
				ss[i], errs[i] = w.Settle(ctx, handles[i][at], actual)
			}
			same(t, fmt.Sprintf("settle %d", actual), errs, ss[0], ss[1])
		case 7:
			if k.Lease == "" {
				continue
			}
			var ds [2]client.Decision
			var released [2]bool
			release := r.IntN(2) == 0
			for i, w := range both {
				if release {
					released[i], errs[i] = w.Release(ctx, k)
				} else {
					ds[i], errs[i] = w.Acquire(ctx, k)
				}
			}
			same(t, fmt.Sprintf("acquire or release (%v) %+v", release, k), errs, ds[0], ds[1])
			if released[0] != released[1] {
				t.Fatalf("release %+v: %v over the one, %v over the other", k, released[0], released[1])
			}
		}
	}
}

// A check whose answer is lost is made again under its key, by its caller, and charged once;
// another under the same key is an error.
func TestCheckAgainUnderItsKey(t *testing.T) {
	both, _ := wires(t)
	for _, w := range both {
		c, err := client.New(client.Options{Wire: w})
		if err != nil {
			t.Fatal(err)
		}
		k := client.Of("api", weir.Entry{Key: "client_id", Value: "ann"})
		k.Cost, k.IdempotencyKey = 7, `a "key"`
		for i := range 3 {
			if d, err := c.Check(t.Context(), k); err != nil || !d.Allowed || d.Repeated != (i > 0) || d.Remaining != 3 {
				t.Errorf("%d: %+v, %v", i, d, err)
			}
		}
		other := k
		other.Cost = 8
		if _, err := c.Check(t.Context(), other); !isError(err, 422, "IDEMPOTENCY_MISMATCH") {
			t.Errorf("got %v", err)
		}
		if _, err := c.Reserve(t.Context(), k); !isError(err, 422, "IDEMPOTENCY_MISMATCH") {
			t.Errorf("got %v", err)
		}
		res, err := c.Reserve(t.Context(), client.Check{Domain: "api", Descriptors: k.Descriptors, Cost: 2, IdempotencyKey: "r"})
		if err != nil || res.Handle == "" || res.Decision.Repeated {
			t.Errorf("%+v, %v", res, err)
		}
		long := k
		long.IdempotencyKey = strings.Repeat("k", 257)
		if _, err := c.Check(t.Context(), long); !isError(err, 400, "") {
			t.Errorf("got %v", err)
		}
		if _, err := c.CheckAll(t.Context(), []client.Check{k, k}); !isError(err, 400, "") {
			t.Errorf("got %v", err)
		}
	}
}

func isError(err error, status int, code string) bool {
	var e *client.Error
	return errors.As(err, &e) && e.Status == status && e.Code == code
}

func TestClientOverGRPC(t *testing.T) {
	both, _ := wires(t)
	c, err := client.New(client.Options{Wire: both[0], Budget: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		d, err := c.ShouldAllow(t.Context(), "123")
		if err != nil || d.Degraded || d.Allowed != (i < 10) {
			t.Fatalf("%d: %+v %v", i, d, err)
		}
		if want := client.Service; i == 11 {
			want = client.Remembered
			if d.Source != want {
				t.Errorf("%d: decided by %v, want %v", i, d.Source, want)
			}
		}
	}
	k := client.Of("", weir.Entry{Key: "work", Value: "x"})
	l, d, err := c.Acquire(t.Context(), k)
	if err != nil || !d.Allowed {
		t.Fatalf("%+v %v", d, err)
	}
	for _, held := range []bool{true, false} {
		if released, err := c.Release(t.Context(), l); err != nil || released != held {
			t.Errorf("released %v, %v; held %v", released, err, held)
		}
	}
}

// scripted is a service whose answers a test sets.
type scripted struct {
	weirpb.UnimplementedLimitServiceServer
	check atomic.Pointer[func(context.Context) (*weirpb.CheckResponse, error)]
	batch atomic.Pointer[weirpb.CheckBatchResponse]
}

func (s *scripted) says(check func(context.Context) (*weirpb.CheckResponse, error)) {
	s.check.Store(&check)
}

func (s *scripted) Check(ctx context.Context, _ *weirpb.CheckRequest) (*weirpb.CheckResponse, error) {
	return (*s.check.Load())(ctx)
}

func (s *scripted) CheckBatch(context.Context, *weirpb.CheckBatchRequest) (*weirpb.CheckBatchResponse, error) {
	return s.batch.Load(), nil
}

// plain serves s on addr by a server of grpc-go as it is.
func plain(t *testing.T, addr string, s *scripted) (string, func()) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	if s != nil {
		weirpb.RegisterLimitServiceServer(g, s)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve(ln) }()
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			g.Stop()
			<-done
		}
	}
	t.Cleanup(stop)
	return ln.Addr().String(), stop
}

func TestFaultsOverGRPC(t *testing.T) {
	s := &scripted{}
	addr, stop := plain(t, "127.0.0.1:0", s)
	w := dial(t, addr)
	ask := func() error {
		_, err := w.Decide(t.Context(), []client.Check{client.Of("a", weir.Entry{Key: "k"})}, false)
		return err
	}
	fails := func(st *status.Status) {
		s.says(func(context.Context) (*weirpb.CheckResponse, error) { return nil, st.Err() })
	}
	var wrong *client.Error
	var busy *client.Busy
	for code, want := range map[codes.Code]int{codes.InvalidArgument: 400, codes.FailedPrecondition: 400, codes.Unimplemented: 501} {
		fails(status.New(code, "no"))
		if err := ask(); !errors.As(err, &wrong) || wrong.Status != want {
			t.Errorf("%v: %v, want %d", code, err, want)
		}
	}
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal, codes.Unknown, codes.PermissionDenied, codes.ResourceExhausted} {
		fails(status.New(code, "no"))
		if err := ask(); err == nil || errors.As(err, &wrong) || errors.As(err, &busy) {
			t.Errorf("%v: %v, want a fault of the service", code, err)
		}
	}
	for _, code := range []codes.Code{codes.Unavailable, codes.ResourceExhausted} {
		st, err := status.New(code, "no").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		fails(st)
		if err := ask(); !errors.As(err, &busy) || busy.RetryAfter != 7*time.Second {
			t.Errorf("%v: %v, want 7 s", code, err)
		}
	}
	s.says(func(context.Context) (*weirpb.CheckResponse, error) { return &weirpb.CheckResponse{}, nil })
	if err := ask(); err == nil || !strings.Contains(err.Error(), "without a decision") {
		t.Errorf("an empty answer: %v", err)
	}
	two := []client.Check{client.Of("a", weir.Entry{Key: "k"}), client.Of("a", weir.Entry{Key: "k"})}
	for _, res := range []*weirpb.CheckBatchResponse{
		{}, {Allowed: []bool{true}}, {Allowed: []bool{true, true}, Limit: []uint32{1, 0}},
		{Allowed: []bool{true, true}, DelayUs: []int64{1}}, {Allowed: []bool{true, true, true}},
	} {
		s.batch.Store(res)
		if ds, err := w.Decide(t.Context(), two, false); err == nil {
			t.Errorf("%v is taken for %+v", res, ds)
		}
	}

	// A client with a breaker: nobody answers, and then somebody does.
	c, err := client.New(client.Options{Wire: w, Budget: 2 * time.Second, Probe: 20 * time.Millisecond, MaxProbe: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	check := func() client.Decision {
		d, err := c.Check(t.Context(), two[0])
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	s.says(func(ctx context.Context) (*weirpb.CheckResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if d := check(); !d.Degraded || c.Counters().Timeouts != 1 {
		t.Errorf("a service that hangs: %+v %+v", d, c.Counters())
	}
	s.says(func(context.Context) (*weirpb.CheckResponse, error) {
		return &weirpb.CheckResponse{Decision: &weirpb.Decision{Allowed: true}}, nil
	})
	if d := check(); d.Degraded {
		t.Errorf("a service that answers: %+v", d)
	}
	stop()
	for range 50 {
		if d := check(); !d.Allowed || !d.Degraded {
			t.Errorf("nobody: %+v", d)
		}
	}
	if n := c.Counters(); !n.Open || n.Broken < 20 {
		t.Errorf("counters %+v", n)
	}
	plain(t, addr, s)
	servertest.Await(t, "the service to be asked again", func() bool { return !check().Degraded })

	// Somebody else's server.
	other, _ := plain(t, "127.0.0.1:0", nil)
	if _, err := dial(t, other).Decide(t.Context(), two, false); err == nil || errors.As(err, &wrong) {
		t.Errorf("a server without the service: %v", err)
	}
}
