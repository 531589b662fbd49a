package servertest

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TakeConnections calls take, which opens a connection in the place of a client's, so many
// times, each once the client has had one to three more answers: once per connection, as
// clients send a request again once. It ends early, with an error of t, if take fails or
// the client has no answer for a minute. The channel is closed when it has ended.
func TakeConnections(t testing.TB, rounds int, succeeded *atomic.Int64, take func() error) (done <-chan struct{}) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := range rounds {
			before := succeeded.Load()
			for by := time.Now().Add(time.Minute); succeeded.Load() < before+1+int64(i%3); {
				if time.Now().After(by) {
					t.Error("the client has no answer")
					return
				}
				runtime.Gosched()
			}
			if err := take(); err != nil {
				t.Errorf("connection %d: %v", i, err)
				return
			}
		}
	}()
	return over
}
