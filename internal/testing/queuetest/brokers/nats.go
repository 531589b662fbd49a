// Package brokers starts real brokers for tests.
package brokers

import (
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

// NATS is a server with JetStream until it is killed, for [queuetest.Serve].
func NATS(port, dir string) error {
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: n, JetStream: true, StoreDir: dir})
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	s.WaitForShutdown()
	return nil
}
