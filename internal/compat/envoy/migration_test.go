package envoy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/compat/envoy/counter"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestMigration lets envoyproxy/ratelimit and this service count in one Redis,
// whichever is asked: each must answer as one service would that is asked all.
func TestMigration(t *testing.T) {
	if os.Getenv("WEIR_REFERENCE") == "" {
		t.Skip("WEIR_REFERENCE names no binary of envoyproxy/ratelimit to compare with")
	}
	cases, seed := setting(t, "WEIR_CASES", 20), setting(t, "WEIR_SEED", 1)
	redis := servertest.Redis(t)
	ref := startReference(t, redis.Addr)
	store, err := counter.OpenRedis(t.Context(), counter.RedisOptions{Server: counter.RedisServer{URL: redis.Addr}, JitterSeconds: 300})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ours, all := New(Options{Counters: store}), New(Options{})
	p := &pair{t: t}
	crossed := 0
	for i := range cases {
		g := &generator{Rand: rand.New(rand.NewPCG(uint64(seed+i), 11))}
		files := g.files(fmt.Sprint("m", seed+i))
		if text := ref.load(t, files); text != "" {
			continue
		}
		for _, s := range []*Service{ours, all} {
			if err := s.LoadFiles(files, false); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 80 {
			if left := time.Until(time.Now().Truncate(time.Second).Add(time.Second)); left < 30*time.Millisecond {
				<-time.After(left)
			}
			before := time.Now().Unix()
			req := g.request()
			var got said
			if g.chance(50) {
				got = p.overGRPC(ref.client, "", req)
			} else {
				got = answered(ours.ShouldRateLimit(t.Context(), req))
			}
			want := answered(all.ShouldRateLimit(t.Context(), req))
			if time.Now().Unix() != before {
				crossed++
				break
			}
			if got.text != want.text {
				t.Fatalf("seed %d request %d: %v\ngot:  %s\nwant: %s\n%s", seed+i, n, req, got.text, want.text, show(files))
			}
		}
	}
	if crossed > cases/4+1 {
		t.Errorf("%d of %d cases were cut short by a new second", crossed, cases)
	}
}
