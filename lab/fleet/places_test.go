package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/testing/servertest"
	weirv1 "github.com/weirlimit/weir/proto/weir/v1"
)

// Callers ask for places while the store stands still, and leave, over HTTP and gRPC,
// or are refused by failure policy. None of the places that the store grants when it
// goes on stays taken: nobody knows of them.
func TestFamilyLatePlacesOverTheNetwork(t *testing.T) {
	processes(t)
	for _, mode := range []string{"strict", "leased"} {
		for name, timeout := range map[string]string{"left": patient, "refused": "?timeout=20ms"} {
			t.Run(mode+" "+name, func(t *testing.T) {
				redis := servertest.Redis(t)
				c := cell{algorithm: "concurrency", mode: mode}
				n := serveMany(t, 1, "redis://"+redis.Addr+timeout, rules(t, c.descriptor(count, "")))[0]
				conn, err := grpc.NewClient(n.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				service := weirv1.NewLimitServiceClient(conn)
				place := []*weirv1.Descriptor{{Entries: []*weirv1.Entry{{Key: c.key(), Value: "k"}}}}
				// free waits until so many are, for a while, and returns how many they are.
				free := func() (n int64) {
					for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
						res, err := service.Check(t.Context(), &weirv1.CheckRequest{Domain: domain, Descriptors: place, Peek: true, Lease: "nobody"})
						d := res.GetDecision()
						if n = d.GetRemaining(); err == nil && !d.GetGuarantee().GetDegraded() && n == count {
							break
						}
					}
					return n
				}
				// The scripts are known to the server, and the connections are there.
				if n := free(); n != count {
					t.Fatalf("%d of %d places are free at first", n, count)
				}
				if err := redis.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				const callers = 20
				const failed = `weir_requests_total{result="failed"}`
				before := n.metric(t, failed)
				var wg sync.WaitGroup
				var got atomic.Int64
				for i := range callers {
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
						defer cancel()
						if i%2 == 0 {
							if res, err := service.Acquire(ctx, &weirv1.AcquireRequest{Domain: domain, Descriptors: place}); err == nil && res.GetDecision().GetAllowed() {
								got.Add(1)
							}
							return
						}
						body := fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":%q,"value":"k"}]}]}`, domain, c.key())
						req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.http+"/v1/acquire", strings.NewReader(body))
						if err != nil {
							t.Error(err)
							return
						}
						res, err := client.Do(req)
						if err != nil {
							return
						}
						defer res.Body.Close()
						if text, err := io.ReadAll(res.Body); err == nil && strings.Contains(string(text), `"allowed":true`) {
							got.Add(1)
						}
					})
				}
				wg.Wait()
				if name == "left" {
					// An answer to a caller who leaves just then is lost, with its place. A strict
					// call without a deadline, as over HTTP, ends when the store answers.
					seen := before + callers
					if mode == "strict" {
						seen = before + callers/2
					}
					servertest.Await(t, "the node to see that the callers have left", func() bool { return n.metric(t, failed) >= seen })
				}
				if err := redis.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				if got.Load() > 0 {
					t.Fatalf("%d places were granted by a store that stands still", got.Load())
				}
				if n := free(); n != count {
					t.Errorf("%d of %d places are free, and nobody has one", n, count)
				}
			})
		}
	}
}
