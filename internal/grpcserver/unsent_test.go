package grpcserver

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// answers returns a handler that answers with n bytes.
func answers(n int) func(context.Context, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	out := wrapperspb.Bytes([]byte(strings.Repeat("x", n)))
	return func(context.Context, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) { return out, nil }
}

// callWithoutRoom makes many calls on a connection whose streams have no room for
// answers, and reads everything else.
func (r *running) callWithoutRoom(t *testing.T, many uint32) net.Conn {
	t.Helper()
	c := r.raw(t)
	go io.Copy(io.Discard, c) // it is the windows that are closed, not the connection
	var b strings.Builder
	b.WriteString(frame(frameSettings, 0, 0, "\x00\x04\x00\x00\x00\x00")) // SETTINGS_INITIAL_WINDOW_SIZE
	for i := range many {
		b.WriteString(frame(frameHeaders, endHeaders, 2*i+1, fields()) + frame(frameData, endStream, 2*i+1, "\x00\x00\x00\x00\x00"))
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		t.Fatal(err)
	}
	return c
}

// held returns how many bytes are counted for connections, and in all.
func (u *unsent) held() (sum, total int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		c.mu.Lock()
		sum += c.bytes
		c.mu.Unlock()
	}
	return sum, u.total.Load()
}

// Answers that were taken are not counted, of whatever size.
func TestTakenAnswersAreNotCounted(t *testing.T) {
	for _, size := range []int{0, 10, 5000, 100_000} {
		r := serve(t, Options{}, answers(size))
		c := r.dial(t, nil)
		for range 20 {
			if got, err := ask(c, "x"); err != nil || len(got) != size {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
		}
		servertest.Await(t, "nothing to be counted", func() bool {
			sum, total := r.unsent.held()
			return sum == 0 && total == 0
		})
	}
}

// A client that gives no room for its answers is cut off when it has taken none for
// the stall timeout, however alive its connection is.
func TestAnswersWithoutRoom(t *testing.T) {
	t.Parallel()
	r := serve(t, Options{StallTimeout: 3 * time.Second}, answers(10_000))
	r.callWithoutRoom(t, 50)
	servertest.Await(t, "the answers to wait", func() bool { _, total := r.unsent.held(); return total > 50*10_000 })
	servertest.Await(t, "the connection to be cut off", func() bool {
		sum, total := r.unsent.held()
		return sum == 0 && total == 0
	})
	if got, err := ask(r.dial(t, nil), "x"); err != nil || len(got) != 10_000 {
		t.Errorf("another client: %d bytes, %v", len(got), err)
	}
}

// However many answers are too many at once, only the connection with the most is closed
// for them.
func TestFamilyOnlyTheWorstIsClosed(t *testing.T) {
	rounds := 300
	if os.Getenv("WEIR_SOAK") != "" {
		rounds = 30_000
	}
	for range rounds {
		const most = 1 << 20
		u := newUnsent(most)
		add := func(bytes int) *conn {
			end, other := net.Pipe()
			t.Cleanup(func() { end.Close(); other.Close() })
			c := &conn{Conn: end, of: u}
			u.mu.Lock()
			u.conns[c] = struct{}{}
			u.mu.Unlock()
			c.Get(bytes)
			return c
		}
		modest, greedy := add(most/4), add(most/2)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { greedy.Get(most / 4) })
		}
		all.Wait()
		if sum, total := u.held(); modest.gone || !greedy.gone || sum != total {
			t.Fatalf("modest closed: %v, greedy closed: %v, %d bytes held, %d counted", modest.gone, greedy.gone, sum, total)
		}
	}
}

// Answers that nobody takes are bounded: whoever has the most is cut off, and others
// are not.
func TestUnsentAnswersAreBounded(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	// No time ends here what waits, however slow this machine is.
	r := serve(t, Options{MaxUnsent: most, StallTimeout: time.Hour, CallTimeout: time.Hour}, answers(100_000))
	modest := r.callWithoutRoom(t, 5)
	servertest.Await(t, "five answers to wait", func() bool { _, total := r.unsent.held(); return total >= 5*100_000 })
	neighbour := r.dial(t, nil)
	for range 3 {
		r.callWithoutRoom(t, 200)
		if _, err := ask(neighbour, "x"); err != nil {
			t.Errorf("the neighbour: %v", err)
		}
	}
	servertest.Await(t, "the others to be cut off", func() bool {
		sum, total := r.unsent.held()
		return total == sum && total < most && total >= 5*100_000
	})
	if _, err := io.WriteString(modest, frame(framePing, 0, 0, "12345678")); err != nil {
		t.Errorf("who has little: %v", err)
	}
}
