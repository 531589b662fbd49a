package stats

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/faults"
)

const (
	statsdBytes    = 4 << 20 // of lines that wait to be sent
	statsdPacket   = 1432    // bytes: an Ethernet frame less the headers
	statsdChunk    = 1 << 16 // bytes, over TCP
	statsdRetry    = 3 * time.Second
	statsdDial     = 1500 * time.Millisecond
	statsdWrite    = time.Second
	statsdSingly   = 1000 // timer events alike that get a line each
	statsdGoodbye  = time.Second
	statsdLogEvery = time.Minute
)

// Statsd sends statistics as lines of statsd. What cannot be sent waits, up to
// 4 MiB; beyond that it is thrown away and logged.
type Statsd struct {
	network, addr string
	log           *slog.Logger
	outage        *faults.Outage

	// buf belongs to the caller of the Sink methods.
	buf  []byte
	size int
	out  chan []byte

	dropped    int64
	dropLogged time.Time

	ctx  context.Context // ends when Close gives up
	stop context.CancelFunc
	done sync.WaitGroup
}

// NewStatsd sends to host:port over the network given, tcp or udp (or tcp4 and
// so on). It connects in the background, and again every three seconds while it
// cannot. Close ends it.
func NewStatsd(network, addr string, log *slog.Logger) *Statsd {
	s := &Statsd{network: network, addr: addr, log: log, size: statsdChunk}
	s.outage = faults.NewOutage(log, "statsd unavailable; statistics are buffered up to 4 MiB, decisions are not affected", "statsd recovered", "addr", addr)
	if strings.HasPrefix(network, "udp") {
		s.size = statsdPacket
	}
	s.out = make(chan []byte, statsdBytes/s.size)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.done.Go(s.sendQueued)
	return s
}

// Counter implements Sink.
func (s *Statsd) Counter(name string, delta uint64) { s.appendLines(name, delta, "|c\n", 1) }

// Gauge implements Sink.
func (s *Statsd) Gauge(name string, value uint64) { s.appendLines(name, value, "|g\n", 1) }

// Timer implements Sink. Every event gets a line; when many are alike they share
// one, which says by its sample rate for how many it stands.
func (s *Statsd) Timer(name string, ms int64, n uint64) {
	if n > statsdSingly {
		s.appendLines(name, uint64(ms), "|ms|@"+strconv.FormatFloat(1/float64(n), 'g', -1, 64)+"\n", 1)
		return
	}
	s.appendLines(name, uint64(ms), "|ms\n", n)
}

func (s *Statsd) appendLines(name string, value uint64, suffix string, n uint64) {
	for range n {
		// 20 digits at most, and a colon
		if len(s.buf) > 0 && len(s.buf)+len(name)+21+len(suffix) > s.size {
			s.Flush()
		}
		s.buf = append(append(s.buf, name...), ':')
		s.buf = append(strconv.AppendUint(s.buf, value, 10), suffix...)
	}
}

// Flush implements Sink: what was told is sent as soon as the connection allows.
func (s *Statsd) Flush() {
	if len(s.buf) == 0 {
		return
	}
	select {
	case s.out <- s.buf:
		s.buf = make([]byte, 0, s.size)
	default:
		s.dropped += int64(len(s.buf))
		s.buf = s.buf[:0]
		if now := time.Now(); now.Sub(s.dropLogged) > statsdLogEvery {
			s.dropLogged = now
			s.log.Error("statistics dropped: statsd unavailable", "addr", s.addr, "bytes", s.dropped)
		}
	}
}

// Close sends what waits, for a second at most, and ends the connection. The
// Sink methods must not be called any more.
func (s *Statsd) Close() error {
	s.Flush()
	close(s.out)
	deadline := time.AfterFunc(statsdGoodbye, s.stop)
	defer deadline.Stop()
	s.done.Wait()
	s.stop()
	return nil
}

// sendQueued writes what comes out of the channel until it is closed.
func (s *Statsd) sendQueued() {
	var conn net.Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	fresh := false // nothing was written to conn
	for lines := range s.out {
		// A connection that has died is noticed by writing to it, so each
		// piece gets a second chance on a new one.
		for range 2 {
			if conn == nil {
				if conn = s.connect(); conn == nil {
					return
				}
				fresh = true
			}
			conn.SetWriteDeadline(time.Now().Add(statsdWrite))
			_, err := conn.Write(lines)
			if err == nil {
				// That nobody has a packet is known at the next.
				if !fresh || s.size != statsdPacket {
					s.outage.Succeeded()
				}
				fresh = false
				break
			}
			s.outage.Failed(err)
			conn.Close()
			conn = nil
		}
	}
}

// connect tries until it succeeds; nil means that Close has given up.
func (s *Statsd) connect() net.Conn {
	for {
		d := net.Dialer{Timeout: statsdDial}
		conn, err := d.DialContext(s.ctx, s.network, s.addr)
		if err == nil {
			return conn
		}
		if s.ctx.Err() == nil {
			s.outage.Failed(err)
		}
		if !backoff.Sleep(s.ctx, statsdRetry) {
			return nil
		}
	}
}
