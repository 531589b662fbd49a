package node

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/config"
)

// With nobody who could hear of them no events are made.
func TestNobodyHears(t *testing.T) {
	for _, tt := range []struct {
		url, admin string
		made       bool
	}{
		{"local:", "127.0.0.1:0", true}, {"local:", "", false}, {"off", "127.0.0.1:0", false},
		{"amqp://127.0.0.1:1/", "", true},
	} {
		c := config.Defaults()
		c.Limits, c.Events.URL, c.Admin.Listen = []string{"1/hour"}, tt.url, tt.admin
		s, err := New(c, Build{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if (s.events != nil) != tt.made {
			t.Errorf("--events %s --admin %q: made %v", tt.url, tt.admin, s.events != nil)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNodeNames(t *testing.T) {
	if got := (&config.Events{}).NodeName(); got == "" || strings.ContainsAny(got, "/ ") {
		t.Errorf("by default %q", got)
	}
	if got := (&config.Events{Node: "a"}).NodeName(); got != "a" {
		t.Errorf("got %q", got)
	}
}

// Every queue of the table refuses what it does not know, and has a source.
func TestQueues(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	for _, scheme := range []string{"kafka", "kafkas", "amqp", "amqps"} {
		name, err := config.FindQueueKind("--events", scheme+"://h")
		if err != nil {
			t.Fatal(err)
		}
		kind := queues[name]
		if q, err := kind.open(scheme+"://h?colour=red", log); err == nil || q != nil || !strings.Contains(err.Error(), "colour") && !strings.Contains(err.Error(), "missing") {
			t.Errorf("%s: %v, %v", scheme, q, err)
		}
		if s, err := kind.consume(scheme+"://h?colour=red", log); err == nil || s != nil {
			t.Errorf("%s: %v, %v", scheme, s, err)
		}
		s, err := kind.consume(scheme+"://127.0.0.1:1/weir", log)
		if err != nil || s.Close() != nil {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}
