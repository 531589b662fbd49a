package grpclimit_test

import (
	"fmt"

	"google.golang.org/grpc"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	grpclimit "github.com/weirlimit/weir/middleware/grpc"
	"github.com/weirlimit/weir/store/memory"
)

// A server that answers 100 calls a minute from one address.
func ExampleMiddleware() {
	store := memory.New(memory.Options{})
	defer store.Close()
	lim, err := weir.New(store, weir.Limits{weir.PerMinute(100, algorithm.SlidingWindow)}, weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := grpclimit.New(grpclimit.Options{Limiter: lim})
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(limits.Unary), grpc.ChainStreamInterceptor(limits.Stream))
	defer srv.Stop()
	fmt.Println(len(srv.GetServiceInfo()), "services behind limits")
	// Output: 0 services behind limits
}
