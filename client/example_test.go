package client_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/client"
	"github.com/weirlimit/weir/store/memory"
)

// While nobody answers, a limiter in this process decides.
func Example() {
	store := memory.New(memory.Options{})
	defer store.Close()
	alone, err := weir.New(store, weir.Limits{{Name: "alone", Count: 2, Period: time.Minute, Algorithm: algorithm.FixedWindow}}, weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	wire, err := client.NewHTTP(client.HTTPOptions{URL: "http://127.0.0.1:1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	limits, err := client.New(client.Options{Wire: wire, Domain: "shop", Fallback: client.DecideLocally, Local: alone})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limits.Close()
	for range 3 {
		d, err := limits.Check(context.Background(), client.Of("", weir.Entry{Key: "user", Value: "ann"}))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Source, d.Degraded)
	}
	// Output:
	// true local true
	// true local true
	// false local true
}

func ExampleTransport() {
	t, err := client.NewTransport(client.TransportOptions{Retries: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	api := http.Client{Transport: t}
	fmt.Println(api.Transport != nil)
	// Output: true
}
