package fleet

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFamilyUnreadableIsCounted sends messages that are no events through a queue: the
// metrics of what takes them out say how many are dead letters, from its start on.
func TestFamilyUnreadableIsCounted(t *testing.T) {
	processes(t)
	b := rabbitBroker(t)
	a := keep(t, b.url("weir"), "memory:")
	count := func(result string) float64 {
		return a.metric(t, `weir_analytics_invalid_messages_total{result="`+result+`"}`)
	}
	if dead, dropped := count("dead_letter"), count("dropped"); dead != 0 || dropped != 0 {
		t.Errorf("%g messages are dead letters and %g dropped before there was one", dead, dropped)
	}
	// Until analytics have made the queue, the broker drops what is for it. What asks for
	// a queue that is not there loses its channel.
	servertest.Await(t, "the queue", func() bool {
		_, err := b.channel(t).QueueDeclarePassive("weir", true, false, false, false, nil)
		return err == nil
	})
	ch := b.channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	bad := []string{"no event at all", "{}", `{"specversion":"1.0","id":"1","source":"/weir/n","type":"com.github.weirlimit.weir.record.v9","data":{}}`}
	for _, body := range bad {
		d, err := ch.PublishWithDeferredConfirm("", "weir", true, false, amqp.Publishing{ContentType: event.ContentType, Body: []byte(body)})
		if err != nil || !d.Wait() {
			t.Fatal("not sent", err)
		}
	}
	servertest.Await(t, "the messages to be dead letters", func() bool { return count("dead_letter") == float64(len(bad)) })
	if dropped := count("dropped"); dropped != 0 {
		t.Errorf("%g messages were dropped", dropped)
	}
}
