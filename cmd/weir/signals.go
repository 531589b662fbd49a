package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// errSecondSignal ends a drain that takes too long for whoever waits.
var errSecondSignal = errors.New("second signal: ended without waiting for requests in flight")

// sameSignal is within which two signals are one: supervisors that signal a
// process and its group reach it twice.
const sameSignal = 250 * time.Millisecond

// runUntilSignal runs a node until it ends, and drains it at the first of the
// signals: draining is called, and then the context of run ends. A later signal
// returns errSecondSignal. SIGHUP calls reload instead, if that is not nil.
func runUntilSignal(run func(context.Context) error, draining func(os.Signal), reload func(), signals ...os.Signal) error {
	received := make(chan os.Signal, 4)
	signal.Notify(received, signals...)
	defer signal.Stop(received)
	ctx, drain := context.WithCancel(context.Background())
	defer drain()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	var began time.Time
	for {
		select {
		case err := <-ended:
			return err
		case sig := <-received:
			switch {
			case sig == syscall.SIGHUP && reload != nil:
				reload()
			case ctx.Err() == nil:
				began = time.Now()
				draining(sig)
				drain()
			case time.Since(began) > sameSignal:
				return errSecondSignal
			}
		}
	}
}

// untilSignal returns a context that ends when somebody or something ends the command.
func untilSignal() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}
