package server

import (
	"errors"
	"net"
	"testing"
)

// Whoever is connected when a listener closes is let in, however late somebody
// comes to accept.
func TestQueueListenerLetsTheLastOnesIn(t *testing.T) {
	ln, err := listenOn("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dial := func() {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	accept := func() error {
		c, err := ln.Accept()
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err
	}
	const rest = 20
	for range 1 + rest {
		dial()
	}
	if err := accept(); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- ln.Close() }()
	for i := range rest {
		if err := accept(); err != nil {
			t.Fatalf("connection %d of %d: %v", i, rest, err)
		}
	}
	if err := accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want that it is closed", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// With nobody who accepts, or nobody who still does, Close does not wait for
// ever.
func TestQueueListenerCloses(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		ln, err := listenOn("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ln.(*queueListener).called.Store(accepted)
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		if _, err := ln.Accept(); err == nil {
			t.Error("accepted by a closed listener")
		}
	}
}
