package fleet

import (
	"testing"

	natsgo "github.com/nats-io/nats.go"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFamilyUnreadableIsCounted sends messages that are no events through a queue: the
// metrics of what takes them out say how many are dead letters, from its start on.
func TestFamilyUnreadableIsCounted(t *testing.T) {
	processes(t)
	b := natsBroker(t)
	natsStream(t, b.Addr, "weir", -1)
	a := keep(t, b.url("weir"), "memory:")
	count := func(result string) float64 {
		return a.metric(t, `weir_analytics_invalid_messages_total{result="`+result+`"}`)
	}
	if dead, dropped := count("dead_letter"), count("dropped"); dead != 0 || dropped != 0 {
		t.Errorf("%g messages are dead letters and %g dropped before there was one", dead, dropped)
	}
	nc, err := natsgo.Connect("nats://" + b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	bad := []string{"no event at all", "{}", `{"specversion":"1.0","id":"1","source":"/weir/n","type":"com.github.weirlimit.weir.record.v9","data":{}}`}
	for _, body := range bad {
		if err := nc.PublishMsg(&natsgo.Msg{Subject: "weir.events", Data: []byte(body), Header: natsgo.Header{"Content-Type": {event.ContentType}}}); err != nil {
			t.Fatal(err)
		}
	}
	servertest.Await(t, "the messages to be dead letters", func() bool { return count("dead_letter") == float64(len(bad)) })
	if dropped := count("dropped"); dropped != 0 {
		t.Errorf("%g messages were dropped", dropped)
	}
}
