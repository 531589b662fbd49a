package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/servertest"
	grpclimit "github.com/weirlimit/weir/middleware/grpc"
)

// outgoing returns a connection whose calls are limited.
func outgoing(t *testing.T, descriptors string, e *echo, change func(*grpclimit.ClientOptions)) *grpc.ClientConn {
	t.Helper()
	l, _ := limiter(t, descriptors)
	opt := grpclimit.ClientOptions{Limiter: l, Key: func(*grpc.ClientConn, string) string { return "them" }}
	if change != nil {
		change(&opt)
	}
	c, err := grpclimit.NewClient(opt)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, e, nil, grpc.WithChainUnaryInterceptor(c.Unary), grpc.WithChainStreamInterceptor(c.Stream))
}

func same(_ context.Context, in string) (string, error) { return in, nil }

func TestClientRefuses(t *testing.T) {
	conn := outgoing(t, "- {key: host, limits: [{limit: 2/minute, name: theirs, algorithm: fixed_window}]}\n", &echo{do: same},
		func(o *grpclimit.ClientOptions) { o.MaxWait = -1 })
	for range 2 {
		if _, err := call(t, conn, "x"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := call(t, conn, "x")
	limited, ok := errors.AsType[*grpclimit.Limited](err)
	if !ok || limited.Key != "them" || limited.Limit != "theirs" || limited.RetryAfter != 40*time.Second || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
}

func TestClientWaits(t *testing.T) {
	conn := outgoing(t, "- {key: host, limits: [{limit: 20/second, algorithm: leaky_queue}]}\n", &echo{do: same}, nil)
	began := time.Now()
	for range 3 {
		if _, err := call(t, conn, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("three of 20 a second took %s", took)
	}
}

// Who asks to be left alone is.
func TestClientHeeds(t *testing.T) {
	calls := 0
	e := &echo{do: func(_ context.Context, in string) (string, error) {
		if calls++; calls > 1 {
			return in, nil
		}
		st, err := status.New(codes.Unavailable, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(100 * time.Millisecond)})
		if err != nil {
			return "", err
		}
		return "", st.Err()
	}}
	conn := outgoing(t, "- {key: host, limit: 100/minute}\n", e, nil)
	if _, err := call(t, conn, "x"); status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := call(t, conn, "x"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 80*time.Millisecond {
		t.Errorf("called again after %s, though asked to wait 100ms", took)
	}
}

// A stream holds its place until it is over, however it ends.
func TestClientStreams(t *testing.T) {
	e := &echo{do: same, flow: func(s grpc.ServerStream) error {
		m := new(wrapperspb.StringValue)
		if err := s.RecvMsg(m); err != nil {
			return err
		}
		return s.SendMsg(m)
	}}
	conn := outgoing(t, "- {key: host, limits: [{limit: 1, algorithm: concurrency, ttl: 1m}]}\n", e, func(o *grpclimit.ClientOptions) { o.MaxWait = -1 })
	open := func(ctx context.Context) (grpc.ClientStream, error) {
		return conn.NewStream(ctx, &flow, "/test.Echo/Flow")
	}
	s, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second of one: %v", err)
	}
	if err := s.SendMsg(wrapperspb.String("m")); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, conn, "x"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("beside a stream that is not over: %v", err)
	}
	if err := s.RecvMsg(new(wrapperspb.StringValue)); err != io.EOF {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := open(ctx); err != nil {
		t.Errorf("after the end of the stream: %v", err)
	}
	cancel()
	servertest.Await(t, "the place to be given back", func() bool { _, err := call(t, conn, "x"); return err == nil })
}

func TestClientStoreFails(t *testing.T) {
	l, store := limiter(t, "- {key: host, limit: 100/minute}\n")
	store.Fail = errors.New("gone")
	var hook func(context.Context, string, error) error
	c, err := grpclimit.NewClient(grpclimit.ClientOptions{Limiter: l, OnError: func(ctx context.Context, method string, err error) error { return hook(ctx, method, err) },
		Descriptors: func(_ context.Context, _ string, w *weir.Request) {
			w.Descriptors = append(w.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "host", Value: "x"}}})
		}})
	if err != nil {
		t.Fatal(err)
	}
	conn := serve(t, &echo{do: same}, nil, grpc.WithChainUnaryInterceptor(c.Unary))
	hook = func(context.Context, string, error) error { return nil }
	if _, err := call(t, conn, "x"); err != nil {
		t.Errorf("open: %v", err)
	}
	hook = func(_ context.Context, _ string, err error) error { return status.Error(codes.Aborted, err.Error()) }
	if _, err := call(t, conn, "x"); status.Code(err) != codes.Aborted {
		t.Errorf("closed: %v", err)
	}
}
