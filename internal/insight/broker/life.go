package broker

import (
	"context"
	"sync"

	"github.com/weirlimit/weir/internal/insight/event"
)

// Life is from when something is opened until it is closed. The zero value is
// ready. Safe for concurrent use.
type Life struct {
	mu     sync.Mutex
	closed bool
	end    func() // ends open, which ends the calls under way
	open   context.Context
	calls  sync.WaitGroup
}

// Enter begins a call; leave ends it. The context ends with ctx and when Close is
// called. After that, Enter returns event.ErrClosed.
func (l *Life) Enter(ctx context.Context) (inner context.Context, leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, event.ErrClosed
	}
	if l.open == nil {
		l.open, l.end = context.WithCancel(context.Background())
	}
	inner, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.open, cancel)
	l.calls.Add(1)
	return inner, func() {
		stop()
		cancel()
		l.calls.Done()
	}, nil
}

// Closed reports whether Close was called.
func (l *Life) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Close ends the calls under way and waits for them. It reports whether it is the
// first to do so.
func (l *Life) Close() bool {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	if l.end != nil {
		l.end()
	}
	l.mu.Unlock()
	l.calls.Wait()
	return first
}
