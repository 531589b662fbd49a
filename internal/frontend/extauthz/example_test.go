package extauthz_test

import (
	"context"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/frontend/extauthz"
	"github.com/weirlimit/weir/store/memory"
)

// Envoy asks about the requests of a client: two a minute are let through.
// [extauthz.Service.Register] puts the service on a gRPC server.
func Example() {
	store := memory.New(memory.Options{})
	defer store.Close()
	lim, err := weir.New(store, weir.Limits{weir.PerMinute(2, algorithm.TokenBucket)}, weir.Options{})
	if err != nil {
		panic(err)
	}
	svc, err := extauthz.New(extauthz.Options{Authorize: authorize.Options{Limiter: lim}})
	if err != nil {
		panic(err)
	}
	in := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: "203.0.113.7"}}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Host: "shop.example", Path: "/"}},
	}}
	for range 3 {
		out, err := svc.Check(context.Background(), in)
		if err != nil {
			panic(err)
		}
		fmt.Println(out.GetDynamicMetadata().GetFields()["outcome"].GetStringValue(), int32(out.GetDeniedResponse().GetStatus().GetCode()))
	}
	// Output:
	// allowed 0
	// allowed 0
	// refused 429
}
