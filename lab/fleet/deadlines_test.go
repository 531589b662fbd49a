package fleet

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/testing/servertest"
	weirv1 "github.com/weirlimit/weir/proto/weir/v1"
)

// Clients that choose their deadlines, over gRPC, and that hang up, over HTTP: the
// store answers, so nothing is decided by failure policy for them or for others, and
// of limits that are used up not one unit more is admitted.
func TestFamilyCallersDeadlinesOverTheNetwork(t *testing.T) {
	processes(t)
	redis := servertest.Redis(t)
	all := []cell{
		{algorithm: "fixed_window", mode: "strict"}, {algorithm: "sliding_log", mode: "strict"},
		{algorithm: "fixed_window", mode: "leased"}, {algorithm: "token_bucket", mode: "leased"},
		{algorithm: "fixed_window", mode: "eventual", over: overshoot},
	}
	// Refusals are remembered: what keeps the store asked is a limit that has room.
	wide := cell{algorithm: "token_bucket", mode: "strict"}
	var descriptors []string
	for _, c := range all {
		descriptors = append(descriptors, strings.Replace(c.descriptor(count, "year"), "on_store_error: deny", "on_store_error: allow", 1))
	}
	descriptors = append(descriptors, wide.descriptor(1_000_000, "year"))
	// The second node has never asked for the limits when the first has used them up.
	nodes := serveMany(t, 2, "redis://"+redis.Addr+patient, rules(t, descriptors...))
	passed := make([]atomic.Int64, len(all))
	for i, c := range all {
		a := offer(t, nodes[:1], c.key(), 2*count, 10)
		passed[i].Add(a.allowed.Load())
	}
	time.Sleep(1100 * time.Millisecond) // refusals are remembered for a second
	asks := 4000
	if soak {
		asks = 200_000
	}
	var clients sync.WaitGroup
	var left, answered atomic.Int64
	for c := range 4 {
		clients.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(c)))
			n := nodes[c%2]
			conn, err := grpc.NewClient(n.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			service := weirv1.NewLimitServiceClient(conn)
			for turn := range asks / 4 {
				i, key := rnd.IntN(len(all)), wide.key()
				busy := turn%2 == 0
				if !busy {
					key = all[i].key()
				}
				ctx, cancel := context.WithTimeout(t.Context(), []time.Duration{
					50 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond, time.Duration(rnd.Int64N(int64(5 * time.Millisecond))),
				}[rnd.IntN(4)])
				var allowed, degraded bool
				if rnd.IntN(3) == 0 {
					allowed, degraded, err = overHTTP(ctx, n, key)
				} else {
					allowed, degraded, err = overGRPC(ctx, service, key)
				}
				cancel()
				switch {
				case err != nil:
					left.Add(1)
				case degraded:
					t.Errorf("%s: decided by failure policy", key)
				default:
					answered.Add(1)
				}
				if allowed && !busy {
					passed[i].Add(1)
				}
			}
		})
	}
	clients.Wait()
	for i, c := range all {
		if n := float64(passed[i].Load()); n > count*(1+c.over) {
			t.Errorf("%s: %.0f passed of %d", c.key(), n, count)
		}
	}
	for _, n := range nodes {
		up := n.metric(t, "weir_shared_store_up")
		failed := n.metric(t, `weir_shared_store_calls_total{result="error"}`) + n.metric(t, `weir_shared_store_calls_total{result="timeout"}`)
		if by := n.metric(t, "weir_degraded_decisions_total"); up != 1 || failed != 0 || by != 0 {
			t.Errorf("the store is up: %g; %g calls failed, %g decisions by failure policy", up, failed, by)
		}
	}
	t.Logf("%d callers left, %d were answered", left.Load(), answered.Load())
	if left.Load() == 0 || answered.Load() == 0 {
		t.Errorf("%d callers left, %d were answered: nothing was tested", left.Load(), answered.Load())
	}
}

func overGRPC(ctx context.Context, service weirv1.LimitServiceClient, key string) (allowed, degraded bool, err error) {
	res, err := service.Check(ctx, &weirv1.CheckRequest{Domain: domain, Descriptors: []*weirv1.Descriptor{{Entries: []*weirv1.Entry{{Key: key, Value: "k"}}}}})
	if c := status.Code(err); err != nil && c != codes.DeadlineExceeded && c != codes.Canceled {
		return true, true, nil // whatever it is, the store did not fail
	}
	d := res.GetDecision()
	return d.GetAllowed(), d.GetGuarantee().GetDegraded(), err
}

func overHTTP(ctx context.Context, n *node, key string) (allowed, degraded bool, err error) {
	body := fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":%q,"value":"k"}]}]}`, domain, key)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.http+"/v1/check", strings.NewReader(body))
	if err != nil {
		return false, false, err
	}
	res, err := client.Do(req)
	if err != nil {
		return false, false, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return strings.Contains(string(text), `"allowed":true`), strings.Contains(string(text), `"degraded":true`), err
}
