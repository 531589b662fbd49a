package rabbitmq

import (
	"testing"

	"github.com/weirlimit/weir/internal/testing/queuetest"
	"github.com/weirlimit/weir/internal/testing/queuetest/brokers"
)

// A message that the broker refuses, by closing the channel, is not tried for ever.
func TestFamilyRefusedMessages(t *testing.T) {
	p := brokers.RabbitMQ(t, "max_message_size = 4096")
	queuetest.RunRefusals(t, func(testing.TB) *queuetest.Broker { return on(p.Addr, "small") })
}
