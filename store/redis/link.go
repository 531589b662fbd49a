package redis

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
)

// A link is the client of a server, of a primary, or of a cluster. It is made anew where
// the servers say that they do not serve: the name may lead to others by now, and those that
// were left keep their connections open. Safe for concurrent use.
type link struct {
	name     string
	logger   *slog.Logger
	connect  func(ctx context.Context) (rueidis.Client, error)
	reached  atomic.Pointer[client] // nil as long as nobody was reached
	missing  error                  // why nobody was when the store was opened
	renewing atomic.Bool            // in the background
	ctx      context.Context        // ends with the link
	end      context.CancelFunc
	stopped  sync.WaitGroup

	life   sync.Mutex // guards what follows, and that nothing begins once ctx has ended
	logged time.Time  // when what the servers say was logged last
	wrong  string     // why it could not be made anew when that was last tried
}

const (
	// renewEvery is how often a client is made anew at most, but for the probes of a ring.
	renewEvery = time.Second
	// logEvery is how often it is logged why, at most.
	logEvery = 10 * time.Second
)

// newLink returns a link that has no client yet.
func newLink(name string, logger *slog.Logger, connect func(context.Context) (rueidis.Client, error)) *link {
	l := &link{name: name, logger: logger, connect: connect}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// connectFirst reaches the servers, or notes why it cannot if they may come late. Nobody uses the link
// yet.
func (l *link) connectFirst(ctx context.Context, mayBeLate bool) error {
	err := l.reconnect(ctx)
	if err == nil || mayBeLate && Unreachable(err) {
		l.missing = err
		return nil
	}
	return err
}

// A client is closed when nobody uses it any more: what is asked of one that is closed has
// no answer, whether or not it was sent.
type client struct {
	rueidis.Client
	uses atomic.Int64  // one of them its link's, as long as that has it
	idle chan struct{} // closed when there is none
}

func newClient(made rueidis.Client) *client {
	c := &client{Client: made, idle: make(chan struct{})}
	c.uses.Store(1)
	return c
}

// tryUse reports false where the link has another by now.
func (c *client) tryUse() bool {
	for n := c.uses.Load(); n > 0; n = c.uses.Load() {
		if c.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (c *client) releaseUse() {
	if c.uses.Add(-1) == 0 {
		close(c.idle)
	}
}

// hasClient reports whether the servers were reached once.
func (l *link) hasClient() bool { return l.reached.Load() != nil }

// useClient runs f with the client, which there must be.
func (l *link) useClient(f func(rueidis.Client)) {
	c := l.reached.Load()
	for !c.tryUse() {
		c = l.reached.Load()
	}
	defer c.releaseUse()
	f(c.Client)
}

// heedError notes what a server said: if that is that it does not serve, the client is made
// anew in the background, unless it was a moment ago.
func (l *link) heedError(err error) {
	if !hasLeft(err) || l.renewing.Load() {
		return
	}
	l.life.Lock()
	defer l.life.Unlock()
	if l.ctx.Err() != nil || l.renewing.Swap(true) {
		return
	}
	if time.Since(l.logged) > logEvery {
		l.logged = time.Now()
		l.logger.Warn("server serves no longer; its name is dialled again", "server", l.name, "error", explain(err))
	}
	l.stopped.Go(func() {
		defer l.renewing.Store(false)
		ctx, cancel := context.WithTimeout(l.ctx, renewEvery)
		defer cancel()
		_ = l.renewClient(ctx) // the one before is used on, and what it says is heard
		<-ctx.Done()
	})
}

// renewClient is reach, and logs of servers that cannot be used.
func (l *link) renewClient(ctx context.Context) error {
	err := l.reconnect(ctx)
	l.life.Lock()
	defer l.life.Unlock()
	if err != nil && l.ctx.Err() == nil && !Unreachable(err) && err.Error() != l.wrong {
		l.wrong = err.Error()
		l.logger.Warn("server unusable", "server", l.name, "error", explain(err))
	}
	return err
}

// reconnect connects, anew where there is a client: each of its connections that has ended, and
// that nobody waits on, would fail one more call before it is replaced.
func (l *link) reconnect(ctx context.Context) error {
	made, err := l.connect(ctx)
	if err != nil {
		return err
	}
	l.life.Lock()
	defer l.life.Unlock()
	if l.ctx.Err() != nil {
		made.Close()
		return weir.ErrClosed
	}
	// Who sees that the server is not lost sees the client too.
	if old := l.reached.Swap(newClient(made)); old != nil {
		l.stopped.Go(func() {
			old.releaseUse()
			select {
			case <-old.idle:
			case <-l.ctx.Done():
			}
			old.Close()
		})
	}
	return nil
}

// close ends the calls under way.
func (l *link) close() {
	l.life.Lock()
	l.end()
	l.life.Unlock()
	l.stopped.Wait()
	if c := l.reached.Load(); c != nil {
		c.Close()
	}
}
