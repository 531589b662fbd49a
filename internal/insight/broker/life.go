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
	next   int
	cancel map[int]context.CancelFunc
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
	inner, cancel := context.WithCancel(ctx)
	if l.cancel == nil {
		l.cancel = make(map[int]context.CancelFunc)
	}
	l.next++
	id := l.next
	l.cancel[id] = cancel
	l.calls.Add(1)
	return inner, func() {
		cancel()
		l.mu.Lock()
		delete(l.cancel, id)
		l.mu.Unlock()
		l.calls.Done()
	}, nil
}

// Closed reports whether Close was called.
func (l *Life) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// ErrorOf returns the error of a call: event.ErrClosed after Close.
func (l *Life) ErrorOf(err error) error {
	if err != nil && l.Closed() {
		return event.ErrClosed
	}
	return err
}

// Close ends the calls under way and waits for them. It reports whether it is the
// first to do so.
func (l *Life) Close() bool {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	for _, cancel := range l.cancel {
		cancel()
	}
	l.mu.Unlock()
	l.calls.Wait()
	return first
}
