package redis

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// A leaver stands before a server and passes all on, until it has left: then it answers each
// command with an error, and keeps its connections, as a server does that was demoted. Whether
// it lets new ones in says greets.
type leaver struct {
	addr   string
	greets atomic.Bool
	says   atomic.Pointer[string] // once it has left
	said   atomic.Int64           // how often
	conns  atomic.Int64
}

func newLeaver(t *testing.T, target string) *leaver {
	ln := servertest.Listen(t)
	l := &leaver{addr: ln.Addr().String()}
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { ln.Close(); stop(); all.Wait() })
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			l.conns.Add(1)
			all.Go(func() {
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				defer conn.Close()
				server, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer server.Close()
				answered := make(chan struct{}, 1)
				all.Go(func() { passReplies(conn, server, answered) })
				for in, passed := bufio.NewReader(conn), false; ; {
					command, err := readCommand(in)
					if err != nil {
						return
					}
					to, what := server, command
					isGreeting := bytes.Contains(command, []byte("\r\nHELLO\r\n")) || bytes.Contains(command, []byte("\r\nCLIENT\r\n"))
					if says := l.says.Load(); says != nil && !(isGreeting && l.greets.Load()) {
						if passed { // what was asked before is answered before
							if _, err := server.Write([]byte("*2\r\n$4\r\nECHO\r\n" + lastReply)); err != nil {
								return
							}
							<-answered
						}
						to, what = conn, []byte("-"+*says+"\r\n")
						l.said.Add(1)
					}
					passed = to == server
					if _, err := to.Write(what); err != nil {
						return
					}
				}
			})
		}
	})
	return l
}

// lastReply is what a server says last before it is passed over, which its client does not hear.
const lastReply = "$11\r\nthat was it\r\n"

// passReplies passes on what a server says, and tells when it has said its last reply, or hangs
// up.
func passReplies(to io.Writer, server io.Reader, answered chan<- struct{}) {
	defer close(answered)
	for kept, b := []byte{}, make([]byte, 4096); ; {
		n, err := server.Read(b)
		said, isLast := bytes.CutSuffix(append(kept, b[:n]...), []byte(lastReply))
		// What may be the beginning of the last reply waits for the rest.
		rest := len(said)
		for i := max(0, rest-len(lastReply)); i < len(said) && !isLast && err == nil; i++ {
			if strings.HasPrefix(lastReply, string(said[i:])) {
				rest = i
				break
			}
		}
		if _, failed := to.Write(said[:rest]); failed != nil || err != nil {
			return
		}
		if isLast {
			answered <- struct{}{}
		}
		kept = append([]byte{}, said[rest:]...)
	}
}

// readCommand returns the bytes of the next command.
func readCommand(in *bufio.Reader) (all []byte, err error) {
	line := func() (n int) {
		text, e := in.ReadString('\n')
		all, err = append(all, text...), cmp.Or(err, e)
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(text[1:]))
		}
		return n
	}
	for range line() {
		b := make([]byte, line()+2)
		if err == nil {
			_, err = io.ReadFull(in, b)
		}
		all = append(all, b...)
	}
	return all, err
}

// What servers say that serve no longer.
var leavings = []string{
	"READONLY You can't write against a read only replica.",
	"NOREPLICAS Not enough good replicas to write.",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"LOADING Redis is loading the dataset in memory",
	"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	"NOAUTH Authentication required.",
	"ERR Error running script (call to f_0): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.",
}

// A name leads to another server, and the one before says that it serves no longer, on
// connections that it keeps: the name is dialled again, for decisions, documents of
// operators, and what is asked of single keys, whatever the servers are to each other.
func TestNameIsFollowed(t *testing.T) {
	t.Parallel()
	was, is := servertest.Redis(t), servertest.Redis(t)
	for _, kind := range []string{"redis", "redis+ring"} {
		for _, says := range leavings {
			t.Run(kind+"/"+says[:8], func(t *testing.T) {
				followName(t, kind, newLeaver(t, was.Addr), is, says)
			})
		}
	}
}

// So is that of a whole cluster, whose servers know of each other's changes alone.
func TestNameOfClusterIsFollowed(t *testing.T) {
	t.Parallel()
	is, was := oneNodeCluster(t), oneNodeCluster(t)
	old := newLeaver(t, was.Addr)
	_, port, _ := net.SplitHostPort(old.addr)
	was.Do(t, "CONFIG", "SET", "cluster-announce-port", port)
	followName(t, "redis+cluster", old, is, leavings[5])
}

func oneNodeCluster(t *testing.T) *servertest.RedisServer {
	s := servertest.Redis(t, "--cluster-enabled", "yes")
	serveAllSlots(t, s)
	return s
}

// serveAllSlots makes a server a cluster of one.
func serveAllSlots(t *testing.T, s *servertest.RedisServer) {
	s.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", fmt.Sprint(slots-1))
	servertest.Await(t, "the cluster to serve", func() bool {
		return strings.Contains(fmt.Sprint(s.Do(t, "CLUSTER", "INFO")), "cluster_state:ok")
	})
}

// followName has every door of a store follow a name from the old server to another.
func followName(t *testing.T, kind string, old *leaver, is *servertest.RedisServer, says string) {
	for _, door := range []string{"decision", "document", "inspect", "forget"} {
		name := servertest.NewProxy(t, old.addr)
		s, l := open(t, kind+"://"+name.Addr, Options{Timeout: long}), perHour(t, 10, algorithm.FixedWindow)
		ask := func() (err error) {
			switch door {
			case "decision":
				_, err = s.TakeOne(t.Context(), "k", l, 1)
			case "document":
				_, err = s.ReadDocument(t.Context(), "d", 0)
			case "inspect":
				_, _, err = s.Inspect(t.Context(), "k", l)
			case "forget":
				_, err = s.Forget(t.Context(), "k", l)
			}
			return err
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		name.Target(is.Addr)
		before := old.said.Load()
		old.says.Store(&says)
		// A client has several connections, of which one that is new leads where the name does.
		// A probe of a ring may be the first that hears it.
		servertest.Await(t, "the name to be dialled again by a "+door, func() bool {
			for range 30 {
				if err := ask(); err != nil {
					if !strings.Contains(err.Error(), says[len(says)-20:]) {
						t.Fatalf("%s: the server said %q, and the store %v", door, says, err)
					}
					return false
				}
			}
			return old.said.Load() > before
		})
		old.says.Store(nil)
	}
}

// A server that serves no longer, and whose name leads nowhere else yet, is dialled about
// once a second, however many ask, and once a probe where it lets nobody in; and the name is
// followed when it does lead elsewhere.
func TestNoStormOfConnections(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"redis", "redis+ring", "shared", "shared, nobody let in"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			old := newLeaver(t, servertest.Redis(t).Addr)
			old.greets.Store(kind != "shared, nobody let in")
			name := servertest.NewProxy(t, old.addr)
			url := "redis://" + name.Addr
			if kind == "redis+ring" {
				url = "redis+ring://" + name.Addr + "," + servertest.Redis(t).Addr
			}
			l := perHour(t, 1<<40, algorithm.FixedWindow)
			var s weir.Store = open(t, url, Options{Timeout: long})
			if strings.HasPrefix(kind, "shared") {
				s = newShared(t, s, params.ConsistencyStrict, nil)
			}
			take := func(i int) bool {
				d, err := s.TakeOne(t.Context(), fmt.Sprint(i), l, 1)
				return err == nil && !d.Guarantee().Degraded
			}
			servertest.Await(t, "a decision", func() bool { return take(0) })
			before := old.conns.Load()
			old.says.Store(&leavings[0])
			begun := time.Now()
			servertest.Await(t, "the name to be dialled again", func() bool {
				each(16, func(i int) { take(i) })
				return time.Since(begun) > 1500*time.Millisecond && old.conns.Load()-before >= 2
			})
			// A renewal a second, and four probes; each tries some of four connections.
			if n, most := old.conns.Load()-before, int64(15+15*time.Since(begun).Seconds()); n > most {
				t.Errorf("dialled %d times in %s, %d were enough", n, time.Since(begun), most)
			}
			name.Target(servertest.Redis(t).Addr)
			servertest.Await(t, "the name to be followed", func() bool {
				failed := atomic.Int64{}
				each(16, func(i int) {
					if !take(i) {
						failed.Add(1)
					}
				})
				return failed.Load() == 0
			})
		})
	}
}

// newShared returns a node's store over another.
func newShared(t *testing.T, over weir.Store, mode params.ConsistencyMode, log *slog.Logger) *shared.Store {
	local := memory.New(memory.Options{})
	s, err := shared.New(over, shared.Options{Local: local, Mode: mode, Timeout: 200 * time.Millisecond, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		local.Close()
	})
	return s
}

// What real servers say, in each mode: the name leads to the new primary, and the old one
// stays up.
func TestModesFollowTheName(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"READONLY", "NOREPLICAS", "MASTERDOWN", "MISCONF", "frozen"} {
		for _, mode := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual} {
			t.Run(fmt.Sprint(way, "/", mode), func(t *testing.T) {
				t.Parallel()
				was, is := servertest.Redis(t, "--enable-protected-configs", "yes"), servertest.Redis(t)
				name := servertest.NewProxy(t, was.Addr)
				var log servertest.Log
				logger := slog.New(slog.NewTextHandler(&log, nil))
				s := newShared(t, open(t, "redis://"+name.Addr, Options{Logger: logger}), mode, logger)
				l := &weir.Limit{Name: "l", Algorithm: algorithm.FixedWindow, Count: 1000, Period: time.Hour}
				if err := l.Compile(); err != nil {
					t.Fatal(err)
				}
				n := 0
				take := func() bool { // a new key each time, so that the store must be asked
					n++
					d, err := s.TakeOne(t.Context(), fmt.Sprint(n), l, 1)
					return err == nil && !d.Guarantee().Degraded
				}
				servertest.Await(t, "a decision of the store", take)
				leave(t, was, is, way)
				servertest.Await(t, "the policy to decide", func() bool { return !take() })
				name.Target(is.Addr)
				servertest.Await(t, "a decision of the new primary", func() bool { return take() && is.Do(t, "DBSIZE").(int64) > 0 })
				if way != "frozen" && !strings.Contains(log.String(), way) {
					t.Errorf("the log does not name %s:\n%s", way, log.String())
				}
			})
		}
	}
}

// leave makes a server one that serves no longer.
func leave(t *testing.T, was, is *servertest.RedisServer, way string) {
	host, port, _ := net.SplitHostPort(is.Addr)
	switch way {
	case "READONLY":
		was.Do(t, "REPLICAOF", host, port)
		t.Cleanup(func() { was.Do(t, "REPLICAOF", "NO", "ONE") }) // or the other waits for it when it ends
	case "NOREPLICAS":
		was.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	case "MASTERDOWN":
		was.Do(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
		was.Do(t, "REPLICAOF", host, fmt.Sprint(servertest.FreePort(t)))
	case "frozen":
		if err := was.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = was.Signal(syscall.SIGCONT) })
	case "MISCONF":
		gone := filepath.Join(t.TempDir(), "gone")
		if err := os.Mkdir(gone, 0o700); err != nil {
			t.Fatal(err)
		}
		was.Do(t, "CONFIG", "SET", "dir", gone, "save", "3600 1")
		if err := os.Remove(gone); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { was.Do(t, "CONFIG", "SET", "save", "") }) // or it does not end
		was.Do(t, "BGSAVE")
		servertest.Await(t, "the save to fail", func() bool { return was.Fact(t, "rdb_last_bgsave_status") == "err" })
	}
}

// A server that is demoted and promoted again, and one whose password is another for a
// while, are found again.
func TestSameServerIsFoundAgain(t *testing.T) {
	t.Parallel()
	was, is := servertest.Redis(t), servertest.Redis(t)
	s, l := open(t, "redis://"+was.Addr, Options{Timeout: long}), perHour(t, 1<<40, algorithm.FixedWindow)
	take := func() bool { _, err := s.TakeOne(t.Context(), "k", l, 1); return err == nil }
	if !take() {
		t.Fatal("the server does not decide")
	}
	leave(t, was, is, "READONLY")
	servertest.Await(t, "the server to refuse", func() bool { return !take() })
	was.Do(t, "REPLICAOF", "NO", "ONE")
	servertest.Await(t, "the server to decide again", take)

	old := newLeaver(t, was.Addr)
	s = open(t, "redis://:secret@"+old.addr, Options{Timeout: long})
	if !take() {
		t.Fatal("the server does not decide")
	}
	old.says.Store(&leavings[5])
	servertest.Await(t, "the server to refuse", func() bool { return !take() })
	old.says.Store(nil)
	servertest.Await(t, "the server to decide again", take)
}

// While a server serves no longer, documents of operators are read again as soon as its
// name leads to another, though nobody asks for decisions.
func TestDocumentsFollowTheName(t *testing.T) {
	t.Parallel()
	was, is := servertest.Redis(t), servertest.Redis(t)
	name := servertest.NewProxy(t, was.Addr)
	s := open(t, "redis://"+name.Addr, Options{})
	swap := func() error {
		_, err := s.SwapDocument(t.Context(), "d", 0, documents.Document{Data: []byte("x")})
		return err
	}
	leave(t, was, is, "READONLY")
	if err := swap(); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Fatalf("a replica took a document: %v", err)
	}
	name.Target(is.Addr)
	servertest.Await(t, "the document to be written", func() bool { return swap() == nil })
	if d, err := s.ReadDocument(t.Context(), "d", 0); err != nil || !bytes.Equal(d.Data, []byte("x")) {
		t.Errorf("%q of version %d, %v; the new server has %q, the old one %q", d.Data, d.Version, err, is.Do(t, "KEYS", "*"), was.Do(t, "KEYS", "*"))
	}
}

// After failovers by Sentinels, whether the primary dies or stays up, and where the name of a ring's server leads to another, every
// mode decides by the new primary again, permits are given out by it, and documents of
// operators are written and read there, though nobody asks for decisions meanwhile.
func TestModesFollowFailovers(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"the primary dies", "the primary hands over", "a ring", "a primary of a cluster dies", "a primary of a cluster hands over"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			var was, is *servertest.RedisServer
			var sentinels []*servertest.RedisServer
			var url string
			var name *servertest.Proxy
			together := 1 // so many new keys are decided at once
			switch ofCluster := strings.Contains(way, "cluster"); {
			case way == "a ring":
				was, is = servertest.Redis(t), servertest.Redis(t)
				name = servertest.NewProxy(t, was.Addr)
				url = "redis+ring://" + name.Addr
			case ofCluster:
				cluster := servertest.RedisCluster(t, 3)
				was, is, together = cluster[0], cluster[3], 16 // of which some are its slots'
				url = "redis+cluster://" + cluster[0].Addr + "," + cluster[1].Addr
			default:
				was, is, sentinels = servertest.RedisSentinels(t)
				url = urlOf("redis+sentinel", sentinels) + "/primary"
			}
			modes := []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual}
			window := perHour(t, 1000, algorithm.FixedWindow)
			permits := &weir.Limit{Name: "permits", Algorithm: algorithm.Concurrency, Count: 100, Period: time.Hour}
			if err := permits.Compile(); err != nil {
				t.Fatal(err)
			}
			type node struct {
				mode params.ConsistencyMode
				weir.Store
				board *Store
			}
			var nodes []node
			for _, mode := range modes {
				board := open(t, url, Options{})
				nodes = append(nodes, node{mode, newShared(t, board, mode, nil), board})
			}
			asked := int64(0)
			// A new key each time, so that the store must be asked.
			decides := func(n node, l *weir.Limit) bool {
				for range together {
					asked++
					ops := []weir.Op{{Key: fmt.Sprint(asked), Limit: l, Cost: 1, ID: asked}}
					if n.Take(t.Context(), ops) != nil || !ops[0].Charged || ops[0].Decision.Guarantee().Degraded {
						return false
					}
				}
				return true
			}
			// What was spent of some keys stays so.
			spends := func(n node) (charged int) {
				for i := range together {
					ops := []weir.Op{{Key: fmt.Sprint("spent by ", n.mode, i), Limit: window, Cost: 1000}}
					if err := n.Take(t.Context(), ops); err != nil {
						t.Fatal(err)
					}
					if ops[0].Charged {
						charged++
					}
				}
				return charged
			}
			swap := func(n node) error {
				d, err := n.board.ReadDocument(t.Context(), n.board.opt.Prefix, 0)
				if err == nil {
					_, err = n.board.SwapDocument(t.Context(), n.board.opt.Prefix, d.Version, documents.Document{Data: []byte("ban")})
				}
				return err
			}
			for _, n := range nodes {
				servertest.Await(t, "the first primary to decide", func() bool { return decides(n, window) && decides(n, permits) && swap(n) == nil })
				if n := spends(n); n != together {
					t.Fatalf("%d of %d whole limits are spent", n, together)
				}
			}
			if together > 1 {
				servertest.Await(t, "the replica to have it all", func() bool {
					return was.Fact(t, "master_repl_offset") == is.Fact(t, "master_repl_offset")
				})
			}
			switch way {
			case "a primary of a cluster hands over":
				servertest.Await(t, "the replica to begin", func() bool {
					_, err := is.Try("CLUSTER", "FAILOVER")
					return err == nil
				})
			case "a ring":
				leave(t, was, is, "READONLY")
				name.Target(is.Addr)
			case "the primary dies", "a primary of a cluster dies":
				was.Kill(t)
			default: // and stays up as a replica
				servertest.Await(t, "the Sentinels to begin", func() bool {
					_, err := sentinels[0].Try("SENTINEL", "FAILOVER", "primary")
					return err == nil
				})
			}
			// Until the old one has heard of it both are primaries, and one that is promoted or
			// demoted cuts its connections.
			servertest.Await(t, "the other to be the primary", func() bool {
				old, err := was.Try("ROLE")
				now, err2 := is.Try("ROLE")
				if strings.HasPrefix(fmt.Sprint(now), "[slave") && way == "the primary hands over" {
					_, _ = sentinels[0].Try("SENTINEL", "FAILOVER", "primary") // a busy Sentinel gives up one that it has begun
				}
				return (err != nil || strings.HasPrefix(fmt.Sprint(old), "[slave")) && err2 == nil && strings.HasPrefix(fmt.Sprint(now), "[master")
			})
			begun := time.Now()
			for _, n := range nodes { // documents first: no decision has heard of the failover yet
				servertest.Await(t, "a document at the new primary", func() bool { return swap(n) == nil })
				servertest.Await(t, "a decision of the new primary", func() bool { return decides(n, window) })
				servertest.Await(t, "a permit of the new primary", func() bool { return decides(n, permits) })
				if together > 1 && spends(n) != 0 {
					t.Errorf("%s: what was spent is spent again", n.mode)
				}
				t.Logf("%s: all by the new primary %s after the failover", n.mode, time.Since(begun).Round(time.Millisecond))
			}
			if keys := is.Do(t, "DBSIZE").(int64); keys < 3 {
				t.Errorf("the new primary has %d keys", keys)
			}
		})
	}
}
