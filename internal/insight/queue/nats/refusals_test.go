package nats

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirlimit/weir/internal/testing/queuetest"
)

// A stream that takes only small messages refuses a large event at once.
func TestFamilyRefusedMessages(t *testing.T) {
	p := queuetest.Self(t)
	queuetest.RunRefusals(t, func(t testing.TB) *queuetest.Broker {
		js := connect(t, p.Addr)
		defer js.Conn().Close()
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "small", Subjects: []string{"small.events"}, MaxMsgSize: 4096, Retention: jetstream.WorkQueuePolicy}); err != nil {
			t.Fatal(err)
		}
		return on(p.Addr, "small")
	})
}
