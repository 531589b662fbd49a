package queuetest

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// RunRefusals tests a queue on a broker that takes messages of at most 4096 bytes: Publish
// says at once that a batch with a larger event is refused, and takes the others as they
// were.
func RunRefusals(t *testing.T, fresh func(t testing.TB) *Broker) {
	b := fresh(t)
	q, s := b.Open(t), b.Consume(t)
	defer end(t, q)
	defer end(t, s)
	rng := rand.New(rand.NewPCG(seeds.Of(t), 1))
	var got received
	defer receive(t, s, got.take)()
	all, bad := events(1, 60), map[string]bool{}
	for i := range all {
		if i%10 == 7 {
			all[i].Record.Key, bad[all[i].ID()] = noise(rng, 14_000), true
		}
	}
	for rest := all; len(rest) > 0; {
		batch := rest[:min(len(rest), 1+rng.IntN(10))]
		rest = rest[len(batch):]
		hand(t, q, batch, bad)
	}
	var want []event.Event
	for _, e := range all {
		if !bad[e.ID()] {
			want = append(want, e)
		}
	}
	servertest.Await(t, "the events that fit", func() bool { return got.misses(want) == 0 })
	if n, _ := got.distinct(); n != len(want) {
		t.Errorf("%d events came, of %d that fit", n, len(want))
	}
}

// noise returns text that does not become shorter.
func noise(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(byte('!' + rng.IntN(90)))
	}
	return b.String()
}

// hand hands over a batch, in halves where it is refused.
func hand(t *testing.T, q event.Queue, batch []event.Event, bad map[string]bool) {
	t.Helper()
	// A bound as that of an outbox: what takes so long is taken for an outage.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := q.Publish(ctx, batch)
	if ctx.Err() != nil {
		t.Fatalf("a batch of %d with a bad one is not refused, but tried for ever: %v", len(batch), err)
	}
	refused := false
	for _, e := range batch {
		refused = refused || bad[e.ID()]
	}
	switch {
	case err == nil && refused:
		t.Errorf("a batch of %d with a bad one is taken", len(batch))
	case err == nil:
	case len(batch) > 1:
		hand(t, q, batch[:len(batch)/2], bad)
		hand(t, q, batch[len(batch)/2:], bad)
	case !refused:
		t.Errorf("%s is refused: %v", batch[0].ID(), err)
	default:
		t.Logf("%s: %.200v", batch[0].ID(), err)
	}
}
