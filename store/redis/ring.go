package redis

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/bits"
	"sync"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/faults"
)

// A ring spreads keys over independent servers by rendezvous hashing: each server
// has a score for each key, and the highest keeps it. So a server that joins or
// leaves moves its own share of the keys only, and no table must be agreed on.
//
// A server that does not answer is lost, until a probe finds it.
type ring struct {
	one     // of the servers
	servers []*server
	down    []error // of a server that was not reached yet, when the store was opened
	seed    [sha256.Size]byte
	wait    bool
	connect func(ctx context.Context, host string) (rueidis.Client, error)
	life    sync.Mutex
	ended   bool // guarded by life
	stopped sync.WaitGroup
}

// A server of a ring.
type server struct {
	host string
	slot int // its number
	salt uint64
	// pipeline has no client until the server was reached, while it is lost.
	pipeline *pipeline
	logger   *slog.Logger
	outage   *faults.Outage
	wrong    string // why it could not be used when it was last tried; the probe's
}

func (a *address) connectRing(ctx context.Context, store *Store) (nodes, error) {
	r := &ring{wait: a.OnLoss == OnLossWait, connect: a.connectServer, down: make([]error, len(a.hosts))}
	// A client that knew the hash could aim its keys at one server. The seed is the
	// same on every node, and whoever is not a node knows it only without a password.
	r.seed = sha256.Sum256([]byte("weir ring\x1f" + a.Prefix + "\x1f" + a.password))
	var missing []error
	for i, host := range a.hosts {
		client, err := a.connectServer(ctx, host)
		s := &server{host: host, slot: i, salt: saltOf(host), logger: a.Logger}
		meanwhile := "its keys fail over to the other servers and count from zero"
		if r.wait {
			meanwhile = "limits of its keys follow on_store_error"
		}
		s.outage = faults.NewOutage(a.Logger, "ring server down; "+meanwhile, "ring server recovered", "server", host)
		s.pipeline = newPipeline(store, i, client)
		r.servers, r.shards = append(r.servers, s), append(r.shards, s.pipeline)
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s: %w", host, err)
		if !a.Late || !Unreachable(err) {
			r.close()
			return nil, err
		}
		missing, r.down[i] = append(missing, err), err
	}
	if len(missing) == len(a.hosts) {
		r.close()
		return nil, missing[0]
	}
	return r, nil
}

func (r *ring) probe(ctx context.Context, shard int) error { return r.servers[shard].renew(ctx, r) }

func (r *ring) opened(shard int, err error) {
	if !r.shards[shard].store.closed.Load() {
		r.servers[shard].outage.Failed(err)
	}
}

func (r *ring) closed(shard int) { r.servers[shard].outage.Succeeded() }

func saltOf(host string) uint64 {
	sum := sha256.Sum256([]byte(host))
	return binary.LittleEndian.Uint64(sum[:])
}

// score is how much a server wants a key: the halves of a product, so that every
// bit of it depends on all of both.
func score(key, salt uint64) uint64 {
	hi, lo := bits.Mul64(key^salt, 0x9e3779b97f4a7c15)
	hi, lo = bits.Mul64(hi^lo^salt, 0xd6e8feb86659fd93)
	return hi ^ lo
}

// hash returns the hash of a tag.
func (r *ring) hash(tag string) uint64 {
	var buf [sha256.Size + 2*maxTag]byte
	sum := sha256.Sum256(append(append(buf[:0], r.seed[:]...), tag...))
	return binary.LittleEndian.Uint64(sum[:])
}

// owners returns which server keeps a hash, and which does of those that are not
// lost; nil if all are.
func (r *ring) owners(hash uint64) (own, present *server) {
	var best, bestPresent uint64
	for _, s := range r.servers {
		n := score(hash, s.salt)
		if own == nil || n > best {
			own, best = s, n
		}
		if !s.pipeline.isLost() && (present == nil || n > bestPresent) {
			present, bestPresent = s, n
		}
	}
	return own, present
}

func (r *ring) route(tag string) route {
	s, present := r.owners(r.hash(tag))
	if !r.wait && present != nil {
		s = present
	}
	return route{pipeline: s.pipeline, slot: s.slot, server: s}
}

func (r *ring) isMoved(n *pipeline, key string) bool {
	own, _ := r.owners(r.hash(tag(key)))
	return own.pipeline != n
}

// renew connects to a lost server. Its client is made anew: each of the old one's
// connections that has ended, and that nobody waits on, would fail one more call before
// it is replaced.
func (s *server) renew(ctx context.Context, r *ring) error {
	client, err := r.connect(ctx, s.host)
	if err != nil {
		if !Unreachable(err) && err.Error() != s.wrong {
			s.wrong = err.Error()
			s.logger.Warn("ring server unusable", "server", s.host, "error", explain(err))
		}
		return err
	}
	r.life.Lock()
	defer r.life.Unlock()
	if r.ended {
		client.Close()
		return weir.ErrClosed
	}
	// Who sees that it is not lost sees the client too.
	if old := s.pipeline.renew(client); old != nil {
		r.stopped.Go(old.Close) // which waits for what it has sent
	}
	return nil
}

func (r *ring) close() {
	r.life.Lock()
	r.ended = true
	r.life.Unlock()
	r.stopped.Wait()
	r.one.close()
}
