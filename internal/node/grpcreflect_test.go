package node_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jhump/protoreflect/v2/grpcdynamic"
	"github.com/jhump/protoreflect/v2/grpcreflect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/weirlimit/weir/internal/node"
)

// A client that knows nothing of the services but what reflection tells it, as
// grpcurl does, asks every one of them.
func TestReflectionClient(t *testing.T) {
	s, err := node.New(local("3/hour by client_id"), node.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ready, ended := make(chan node.Ready, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(r node.Ready) { ready <- r }) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	r := <-ready
	conn, err := grpc.NewClient(strings.TrimPrefix(r.URLs["grpc"], "grpc://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := grpcreflect.NewClientAuto(ctx, conn)
	defer client.Reset()
	names, err := client.ListServices()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []protoreflect.FullName{"weir.v1.LimitService", "envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not listed among %s", want, names)
		}
	}
	stub := grpcdynamic.NewStub(conn)
	ask := func(method, question string) string {
		t.Helper()
		service, name, _ := strings.Cut(method, "/")
		file, err := client.FileContainingSymbol(protoreflect.FullName(service))
		if err != nil {
			t.Fatal(err)
		}
		svc := file.Services().ByName(protoreflect.FullName(service).Name())
		m := svc.Methods().ByName(protoreflect.Name(name))
		in := dynamicpb.NewMessage(m.Input())
		if err := protojson.Unmarshal([]byte(question), in); err != nil {
			t.Fatal(err)
		}
		out, err := stub.InvokeRpc(ctx, m, in)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		text, err := protojson.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), " ", "")
	}
	f := func(method, question string, want ...string) {
		t.Helper()
		got := ask(method, question)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s %s: %s, want %s", method, question, got, w)
			}
		}
	}
	f("weir.v1.LimitService/Check", `{"descriptors":[{"entries":[{"key":"client_id","value":"1"}]}]}`, `"allowed":true`, `"remaining":"2"`)
	f("weir.v1.LimitService/CheckBatch", `{"table":{"keys":["client_id"],"values":["1","1","1","2"]}}`,
		`"allowed":[true,true,false,true]`, `"remaining":["1","0","0","2"]`, `"limit":[1,1,1,1]`)
	f("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", `{"domain":"api","descriptors":[{"entries":[{"key":"client_id","value":"1"}]}]}`,
		`"overallCode":"OVER_LIMIT"`, `"requestsPerUnit":3,"unit":"HOUR"`, `"key":"Retry-After"`)
	f("grpc.health.v1.Health/Check", `{"service":"weir.v1.LimitService"}`, `"status":"SERVING"`)
}
