package resp_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/frontend/resp"
	"github.com/weirlimit/weir/store/memory"
)

// A process of one's own answers Redis clients.
func ExampleServer() {
	store := memory.New(memory.Options{})
	defer store.Close()
	limiter, err := weir.New(store, weir.Limits{}, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	s, err := resp.New(resp.Options{Limiter: limiter, Keyring: store})
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()

	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	// 30 in 60 seconds, and 15 more at once.
	fmt.Fprint(client, "CL.THROTTLE user123 15 30 60\r\n")
	replies := bufio.NewScanner(client)
	for range 6 {
		replies.Scan()
		fmt.Println(replies.Text())
	}
	client.Close()
	stop()
	if err := <-served; err != nil {
		log.Fatal(err)
	}
	// Output:
	// *5
	// :0
	// :16
	// :15
	// :-1
	// :2
}
