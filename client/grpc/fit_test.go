package grpcclient_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/client"
	grpcclient "github.com/weirlimit/weir/client/grpc"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// strange answers as it is told to.
type strange struct {
	weirpb.UnimplementedLimitServiceServer
	one  *weirpb.CheckResponse
	many *weirpb.CheckBatchResponse
}

func (s *strange) Check(context.Context, *weirpb.CheckRequest) (*weirpb.CheckResponse, error) {
	return s.one, nil
}

func (s *strange) CheckBatch(context.Context, *weirpb.CheckBatchRequest) (*weirpb.CheckBatchResponse, error) {
	return s.many, nil
}

// TestFamilyStrangeColumns: whatever columns a service answers a batch by, the client
// has a decision on each check, of the service or without it.
func TestFamilyStrangeColumns(t *testing.T) {
	ln := servertest.Listen(t)
	srv, s := grpc.NewServer(), &strange{}
	weirpb.RegisterLimitServiceServer(srv, s)
	go srv.Serve(ln)
	defer srv.Stop()
	w, err := grpcclient.New(grpcclient.Options{Target: ln.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	rng := rand.New(rand.NewPCG(seeds.Of(t), 0))
	rounds := 400
	if os.Getenv("WEIR_SOAK") == "1" {
		rounds = 20_000
	}
	right, wrong := 0, 0
	for range rounds {
		asked := 1 + rng.IntN(3)
		c, err := client.New(client.Options{Wire: w, Fallback: client.Deny, Budget: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ks := make([]client.Check, asked)
		for i := range ks {
			ks[i] = client.Of("shop", weir.Entry{Key: "user", Value: fmt.Sprint(i)})
		}
		good := true
		length := func(needed bool) int {
			switch n := rng.IntN(8); {
			case n == 0:
				n = rng.IntN(5)
				good = good && (n == asked || n == 0 && !needed)
				return n
			case n == 1 && !needed:
				return 0
			}
			return asked
		}
		s.one, s.many = &weirpb.CheckResponse{}, &weirpb.CheckBatchResponse{
			Allowed: make([]bool, length(true)), Remaining: make([]int64, length(false)), RetryAfterUs: make([]int64, length(false)),
			ResetAfterUs: make([]int64, length(false)), DelayUs: make([]int64, length(false)), Soft: make([]bool, length(false)),
			Borrowed: make([]bool, length(false)), Limit: make([]uint32, length(false)),
		}
		for range rng.IntN(3) {
			s.many.Limits = append(s.many.Limits, &weirpb.LimitOfBatch{})
		}
		for i := range s.many.Limit {
			s.many.Limit[i] = []uint32{0, 1, 2, 3, 1 << 31, 1<<32 - 1}[rng.IntN(6)]
			good = good && int64(s.many.Limit[i]) <= int64(len(s.many.Limits))
		}
		for _, column := range [][]int64{s.many.Remaining, s.many.RetryAfterUs, s.many.ResetAfterUs, s.many.DelayUs} {
			for i := range column {
				column[i] = []int64{0, 1, -1, -1 << 63, 1<<63 - 1}[rng.IntN(5)]
			}
		}
		if asked == 1 {
			good = rng.IntN(2) == 0
			if good {
				s.one.Decision = &weirpb.Decision{Allowed: true, DelayUs: -5, RetryAfterUs: -7}
			}
		}
		ds, err := c.CheckAll(t.Context(), ks)
		if err != nil || len(ds) != asked {
			t.Fatalf("%v to %d checks: %d decisions, %v", s.many, asked, len(ds), err)
		}
		if good {
			right++
		} else {
			wrong++
		}
		for _, d := range ds {
			if (d.Source == client.Service) != good || !good && (!d.Degraded || d.Allowed) {
				t.Fatalf("%v to %d checks: %+v", s.many, asked, d)
			}
			if d.Delay < 0 || d.RetryAfter < 0 && d.RetryAfter != weir.Never || d.ResetAfter < 0 && d.ResetAfter != weir.Never {
				t.Fatalf("%v: times of %+v", s.many, d)
			}
		}
	}
	if right < rounds/10 || wrong < rounds/10 {
		t.Errorf("%d good and %d bad answers: the test asks little", right, wrong)
	}
}
