package kafka

import (
	"testing"

	"github.com/weirlimit/weir/internal/insight/broker"
	"github.com/weirlimit/weir/internal/testing/queuetest"
)

// A topic that takes only small messages refuses a large event at once.
func TestFamilyRefusedMessages(t *testing.T) {
	p := queuetest.Self(t)
	queuetest.RunRefusals(t, func(t testing.TB) *queuetest.Broker {
		create(t, p.Addr, "small", "small"+broker.DeadLetterSuffix)
		if err := limit(t, p.Addr, "small", 4096); err != nil {
			t.Fatal(err)
		}
		return on(p.Addr, "small")
	})
}
