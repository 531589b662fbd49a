package grpcserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/bodies"
	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFramesAreFollowed: however the bytes of a connection are cut, the same frames
// are seen.
func TestFramesAreFollowed(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		var b bytes.Buffer
		w := http2.NewFramer(&b, nil)
		var want []string
		for range 1 + r.IntN(20) {
			before := b.Len()
			stream := 1 + 2*r.Uint32N(100)
			var err error
			switch r.IntN(4) {
			case 0:
				err = w.WriteData(stream, r.IntN(2) == 0, make([]byte, r.IntN(40)*r.IntN(40)))
			case 1:
				err = w.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: make([]byte, r.IntN(300)), EndStream: r.IntN(2) == 0})
			case 2:
				err = w.WriteRSTStream(stream, http2.ErrCodeCancel)
			default:
				err = w.WriteSettings()
			}
			if err != nil {
				t.Fatal(err)
			}
			head := b.Bytes()[before:]
			want = append(want, fmt.Sprint(head[3], head[4], binary.BigEndian.Uint32(head[5:]), b.Len()-before-headerBytes, b.Len()))
		}
		var f frames
		var got []string
		total := 0
		for left := b.Bytes(); len(left) > 0; {
			piece := left[:min(len(left), 1+r.IntN(50))]
			left = left[len(piece):]
			for len(piece) > 0 {
				n, ended := f.followFrame(piece)
				piece, total = piece[n:], total+n
				if ended {
					got = append(got, fmt.Sprint(f.kind, f.flags, f.stream, f.length, total))
				}
			}
		}
		if !f.between() || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("saw   %v\nwrote %v", got, want)
		}
	}
}

// sender sends messages on a connection of raw, as fast as it may.
type sender struct {
	net.Conn
	mu      sync.Mutex
	changed *sync.Cond
	// room is what may be sent on each stream, 0 for all together. Requires: mu.
	room map[uint32]int
	// over are the streams that the server has ended, gone: the connection. Requires: mu.
	over map[uint32]http2.ErrCode
	gone bool
	read sync.WaitGroup
}

func newSender(t *testing.T, r *running) *sender {
	s := &sender{Conn: r.raw(t), room: map[uint32]int{0: 65535}, over: map[uint32]http2.ErrCode{}}
	s.changed = sync.NewCond(&s.mu)
	s.read.Go(func() {
		f := http2.NewFramer(nil, s.Conn)
		for {
			frame, err := f.ReadFrame()
			s.mu.Lock()
			switch frame := frame.(type) {
			case *http2.WindowUpdateFrame:
				s.room[frame.StreamID] += int(frame.Increment)
			case *http2.RSTStreamFrame:
				s.over[frame.StreamID] = frame.ErrCode
			case *http2.HeadersFrame:
				s.over[frame.StreamID] = http2.ErrCodeNo
			}
			s.gone = err != nil
			s.changed.Broadcast()
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	return s
}

// begin sends the headers of a call and part bytes of a message of size bytes, in
// DATA frames of at most each bytes, until the server ends the call.
func (s *sender) begin(stream uint32, size, part, each int) {
	head := "\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(size)))
	s.mu.Lock()
	s.room[stream] += 65535
	s.mu.Unlock()
	next := frame(frameHeaders, endHeaders, stream, fields()) + frame(frameData, 0, stream, head)
	used := len(head)
	for sent := 0; ; {
		if _, err := io.WriteString(s, next); err != nil {
			return
		}
		if sent == part {
			return
		}
		k := min(each, part-sent)
		var b strings.Builder
		s.mu.Lock()
		s.room[0] -= used
		s.room[stream] -= used
		used = 0
		for s.room[0] < k || s.room[stream] < k {
			if _, over := s.over[stream]; over || s.gone {
				s.mu.Unlock()
				return
			}
			s.changed.Wait()
		}
		for range 100 {
			if k = min(each, part-sent); k > 0 && s.room[0] >= used+k && s.room[stream] >= used+k {
				b.WriteString(frame(frameData, 0, stream, strings.Repeat("\x00", k)))
				sent, used = sent+k, used+k
			}
		}
		_, over := s.over[stream]
		s.mu.Unlock()
		if over {
			return
		}
		next = b.String()
	}
}

// TestFamilyUnfinishedMessages: what calls have been sent of messages that are not
// answered is bounded, on however many connections and streams, in whatever frames;
// clients that have no room are told RESOURCE_EXHAUSTED, small calls are answered
// meanwhile, and everything is given back in the end, however calls end.
func TestFamilyUnfinishedMessages(t *testing.T) {
	const most = 4 << 20
	sizes := []int{1, 1025, 16 << 10, 1000, 4097}
	if testing.Short() {
		sizes = sizes[:3]
	}
	for _, each := range sizes {
		for _, end := range []string{"reset", "timeout", "close", "finish"} {
			t.Run(fmt.Sprint(each, " ", end), func(t *testing.T) {
				budget := bodies.New(most)
				opt := Options{Bodies: budget, CallTimeout: time.Minute}
				if end == "timeout" {
					opt.CallTimeout = 2 * time.Second
				}
				s := serve(t, opt, nil)
				const streams = 8
				// What is sent of each message costs a MiB.
				part := (1 << 20) / (frameCost(each)) * each
				conns := make([]*sender, 3)
				var sent sync.WaitGroup
				for i := range conns {
					c := newSender(t, s)
					conns[i] = c
					sent.Go(func() {
						for i := range uint32(streams) {
							c.begin(2*i+1, 1<<20-1, part, each)
						}
					})
				}
				sent.Wait()
				client := s.dial(t, nil)
				for range 20 {
					if got, err := ask(client, "small"); err != nil || got != "small" {
						t.Fatalf("a small call is answered %q, %v", got, err)
					}
				}
				if held := budget.Held(); held > most {
					t.Errorf("%d bytes are held, of %d", held, most)
				}
				refused := func() (n int) {
					for _, c := range conns {
						c.mu.Lock()
						for _, code := range c.over {
							if code == http2.ErrCodeEnhanceYourCalm {
								n++
							}
						}
						c.mu.Unlock()
					}
					return n
				}
				if end != "timeout" {
					servertest.Await(t, "all but four calls to be refused", func() bool { return refused() >= len(conns)*streams-5 })
				} else {
					servertest.Await(t, "calls to be refused", func() bool { return refused() > 0 })
				}
				for _, c := range conns {
					for i := range uint32(streams) {
						switch end {
						case "reset":
							_, _ = io.WriteString(c, frame(frameReset, 0, 2*i+1, "\x00\x00\x00\x08"))
						case "finish": // in the middle of the message
							_, _ = io.WriteString(c, frame(frameData, endStream, 2*i+1, ""))
						}
					}
					if end == "close" {
						c.Close()
					}
				}
				servertest.Await(t, "everything to be given back", func() bool { return budget.Held() == 0 })
				for _, c := range conns {
					c.Close()
					c.read.Wait()
				}
			})
		}
	}
}

// TestFramesOfOneByte: what grpc holds of messages that arrive byte by byte is many times
// what they have, and not more than it is counted for. Where grpc holds less, its own
// bounds may do.
func TestFramesOfOneByte(t *testing.T) {
	budget := bodies.New(1 << 30)
	s := serve(t, Options{Bodies: budget, CallTimeout: time.Hour}, nil)
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // pools are emptied by the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	c := s.raw(t)
	go io.Copy(io.Discard, c) // windows are not used up
	const streams, size = 50, 10_000
	head := "\x00" + string(binary.BigEndian.AppendUint32(nil, size+1))
	var begin, round strings.Builder
	for i := range uint32(streams) {
		begin.WriteString(frame(frameHeaders, endHeaders, 2*i+1, fields()) + frame(frameData, 0, 2*i+1, head))
		round.WriteString(frame(frameData, 0, 2*i+1, "\x00"))
	}
	// In turns, so that what has come of each is read before more comes.
	for _, part := range append([]string{begin.String()}, slices.Repeat([]string{round.String()}, size)...) {
		if _, err := io.WriteString(c, part); err != nil {
			t.Fatal(err)
		}
	}
	counted := int64(streams * (size*frameCost(1) + frameCost(len(head)) - bodies.Free))
	servertest.Await(t, "all to arrive", func() bool { return budget.Held() >= counted })
	if held := heap() - before; held < 10*streams*size || held > budget.Held()+streams*bodies.Free {
		t.Errorf("%d KiB are held of %d, and %d counted", held>>10, streams*size>>10, budget.Held()>>10)
	}
}

// TestMessagesWithoutRoom: a client of grpc is told what is the matter, its other
// calls go on, and it is served when there is room again. In clear and encrypted.
func TestMessagesWithoutRoom(t *testing.T) {
	for _, kind := range []string{"clear", "tls"} {
		t.Run(kind, func(t *testing.T) {
			budget := bodies.New(1 << 20)
			opt := Options{Bodies: budget, MaxMessage: 4 << 20}
			arrived, release := make(chan struct{}), make(chan struct{})
			if kind == "tls" {
				cert, key, _ := servertest.Certificate(t, t.TempDir(), "server")
				var err error
				if opt.Certificate, err = certfile.Open(certfile.Files{Cert: cert, Key: key}, slog.New(slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
			}
			s := serve(t, opt, func(_ context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
				if string(in.Value) == "wait" {
					arrived <- struct{}{}
					<-release
				}
				return wrapperspb.Bytes([]byte(fmt.Sprint(len(in.Value)))), nil
			})
			var conf *tls.Config
			if kind == "tls" {
				conf = &tls.Config{InsecureSkipVerify: true}
			}
			c := s.dial(t, conf)
			waits := make(chan error, 1)
			go func() {
				got, err := ask(c, "wait")
				if err == nil && got != "4" {
					err = errors.New(got)
				}
				waits <- err
			}()
			<-arrived
			for i := range 20 {
				large := strings.Repeat("x", 2<<20+i*1000)
				if _, err := ask(c, large); status.Code(err) != codes.ResourceExhausted {
					t.Fatalf("a message of %d bytes is answered %v", len(large), err)
				}
				fits := strings.Repeat("x", 500<<10)
				if got, err := ask(c, fits); err != nil || got != fmt.Sprint(len(fits)) {
					t.Fatalf("a message that fits is answered %q, %v", got, err)
				}
			}
			close(release)
			if err := <-waits; err != nil {
				t.Errorf("another call of the connection: %v", err)
			}
			servertest.Await(t, "everything to be given back", func() bool { return budget.Held() == 0 })
		})
	}
}

// TestFamilyEvictionLosesNoCall: a client whose connection is closed for another just
// as it calls makes the call again elsewhere, and each call is carried out once. In
// clear and encrypted.
func TestFamilyEvictionLosesNoCall(t *testing.T) {
	rounds := 40
	if os.Getenv("WEIR_SOAK") == "1" {
		rounds = 300
	}
	for _, kind := range []string{"clear", "tls"} {
		t.Run(kind, func(t *testing.T) {
			opt := Options{MaxConnections: 1}
			var conf *tls.Config
			if kind == "tls" {
				opt.Certificate, conf = certificate(t)
			}
			var carriedOut, answered atomic.Int64
			s := serve(t, opt, func(_ context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
				carriedOut.Add(1)
				return in, nil
			})
			c := s.dial(t, conf)
			done := servertest.TakeConnections(t, rounds, &answered, func() error { return s.takePlace(conf) })
			asked := int64(0)
			for more := true; more; asked++ {
				if got, err := ask(c, "x", grpc.WaitForReady(true)); err != nil || got != "x" {
					t.Errorf("call %d is answered %q, %v", asked, got, err)
					break
				}
				answered.Add(1)
				select {
				case <-done:
					more = false
				default:
				}
			}
			if n := carriedOut.Load(); !t.Failed() && n != asked {
				t.Errorf("%d calls were carried out %d times", asked, n)
			}
			answered.Add(1 << 40)
			s.end()
			<-done
		})
	}
}

// takePlace opens a connection in the place of an idle one, and waits until it is
// closed for another in turn.
func (r *running) takePlace(conf *tls.Config) error {
	d := &net.Dialer{Timeout: time.Minute}
	raw, err := d.Dial("tcp", r.addr)
	if err != nil {
		return err
	}
	defer raw.Close()
	if err := raw.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	c := raw
	if conf != nil {
		conf = conf.Clone()
		conf.NextProtos = []string{"h2"}
		c = tls.Client(raw, conf)
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("it is not closed")
	}
	return nil
}

// certificate returns one for a server, and what its clients need.
func certificate(t *testing.T) (*certfile.Certificate, *tls.Config) {
	t.Helper()
	cert, key, _ := servertest.Certificate(t, t.TempDir(), "server")
	c, err := certfile.Open(certfile.Files{Cert: cert, Key: key}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c, &tls.Config{InsecureSkipVerify: true}
}

// TestIdleConnectionsMakeRoom: a connection without calls is closed for a new one, and
// none that has a call under way, in clear and encrypted.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	for _, kind := range []string{"clear", "tls"} {
		t.Run(kind, func(t *testing.T) {
			opt := Options{MaxConnections: 2}
			var conf *tls.Config
			if kind == "tls" {
				opt.Certificate, conf = certificate(t)
			}
			arrived, release := make(chan struct{}), make(chan struct{})
			s := serve(t, opt, func(_ context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
				if string(in.Value) == "wait" {
					arrived <- struct{}{}
					<-release
				}
				return in, nil
			})
			busy := s.dial(t, conf)
			waits := make(chan error, 1)
			go func() {
				_, err := ask(busy, "wait")
				waits <- err
			}()
			<-arrived
			for i := range 5 {
				// Each stays, without calls.
				if _, err := ask(s.dial(t, conf), "x"); err != nil {
					t.Errorf("client %d beside an idle one: %v", i, err)
				}
			}
			close(release)
			if err := <-waits; err != nil {
				t.Errorf("the call that was under way: %v", err)
			}
			if _, err := ask(busy, "again"); err != nil {
				t.Errorf("the next call of its client: %v", err)
			}
		})
	}
}
