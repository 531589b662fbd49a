package postgres_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/queue/rabbitmq"
	"github.com/weirlimit/weir/internal/testing/analyticstest"
	"github.com/weirlimit/weir/internal/testing/queuetest/brokers"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// sharedQueue: two services share one real queue and one database: each event is
// counted once, and what they tell is the traffic.
func sharedQueue(t *testing.T, server *servertest.PostgresServer) {
	url := "amqp://guest:guest@" + brokers.RabbitMQ(t).Addr + "?queue=weir"
	queue, err := rabbitmq.Open(url, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer queue.Close()
	tr := analyticstest.Make(t, 1)
	for _, batch := range analyticstest.Mixed(tr.Events, 2) {
		servertest.Await(t, "the queue to take events", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			return queue.Publish(ctx, batch) == nil
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	database := inSchema(t, server.URL, "queue")
	var services []*analytics.Service
	var life sync.WaitGroup
	for range 2 {
		source, err := rabbitmq.Consume(url, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		s := analyticstest.Serve(t, open(t, database), tr)
		services = append(services, s)
		life.Go(func() {
			defer source.Close()
			if err := s.Run(ctx, source); err != nil {
				t.Error(err)
			}
		})
	}
	servertest.Await(t, "all events", func() bool {
		return services[0].Info().Events+services[1].Info().Events >= int64(len(tr.Events))
	})
	cancel()
	life.Wait()
	if n := services[0].Info().Events + services[1].Info().Events; n != int64(len(tr.Events)) {
		t.Errorf("%d events were counted, of %d", n, len(tr.Events))
	}
	analyticstest.Truth(t, services[0].Handler(), tr)
}
