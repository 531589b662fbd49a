package redis

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"

	"github.com/redis/rueidis"

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
	seed    [sha256.Size]byte
	wait    bool
}

// A server of a ring.
type server struct {
	host string
	slot int // its number
	salt uint64
	// pipeline has no client until the server was reached, while it is lost.
	pipeline *pipeline
	outage   *faults.Outage
}

func (a *address) connectRing(ctx context.Context, store *Store) (nodes, error) {
	r := &ring{wait: a.OnLoss == OnLossWait}
	// A client that knew the hash could aim its keys at one server. The seed is the
	// same on every node, and whoever is not a node knows it only without a password.
	r.seed = sha256.Sum256([]byte("weir ring\x1f" + a.Prefix + "\x1f" + a.password))
	for i, host := range a.hosts {
		s := &server{host: host, slot: i, salt: saltOf(host)}
		meanwhile := "its keys fail over to the other servers and count from zero"
		if r.wait {
			meanwhile = "limits of its keys follow on_store_error"
		}
		s.outage = faults.NewOutage(a.Logger, "ring server down; "+meanwhile, "ring server recovered", "server", host)
		connect := func(ctx context.Context) (rueidis.Client, error) { return a.connectServers(ctx, []string{host}) }
		s.pipeline = &pipeline{i, store, newLink(host, a.Logger, connect)}
		r.servers, r.shards = append(r.servers, s), append(r.shards, s.pipeline)
		if err := s.pipeline.connectFirst(ctx, a.Late); err != nil {
			r.close()
			return nil, fmt.Errorf("%s: %w", host, err)
		}
	}
	return r, nil
}

// reachServers reaches one of the servers.
func (r *ring) reachServers(ctx context.Context) (err error) {
	for _, p := range r.shards {
		if p.hasClient() {
			return nil
		}
		if err = p.reconnect(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (r *ring) probeShard(ctx context.Context, shard int) error {
	return r.shards[shard].renewClient(ctx)
}

func (r *ring) breakerOpened(shard int, err error) {
	if !r.shards[shard].store.closed.Load() {
		r.servers[shard].outage.Failed(err)
	}
}

func (r *ring) breakerClosed(shard int) { r.servers[shard].outage.Succeeded() }

func saltOf(host string) uint64 {
	sum := sha256.Sum256([]byte(host))
	return binary.LittleEndian.Uint64(sum[:])
}

// scoreServer is how much a server wants a key: the halves of a product, so that every
// bit of it depends on all of both.
func scoreServer(key, salt uint64) uint64 {
	hi, lo := bits.Mul64(key^salt, 0x9e3779b97f4a7c15)
	hi, lo = bits.Mul64(hi^lo^salt, 0xd6e8feb86659fd93)
	return hi ^ lo
}

// hashTag returns the hash of a tag.
func (r *ring) hashTag(tag string) uint64 {
	var buf [sha256.Size + 2*maxTag]byte
	tag, _, _ = strings.Cut(tag, "}") // what lies beside a key lies on its server
	sum := sha256.Sum256(append(append(buf[:0], r.seed[:]...), tag...))
	return binary.LittleEndian.Uint64(sum[:])
}

// owners returns which server keeps a hash, and which does of those that are not
// lost; nil if all are.
func (r *ring) owners(hash uint64) (own, present *server) {
	var best, bestPresent uint64
	for _, s := range r.servers {
		n := scoreServer(hash, s.salt)
		if own == nil || n > best {
			own, best = s, n
		}
		if !s.pipeline.isLost() && (present == nil || n > bestPresent) {
			present, bestPresent = s, n
		}
	}
	return own, present
}

func (r *ring) routeTag(tag string) route {
	s, present := r.owners(r.hashTag(tag))
	slot := s.slot
	if !r.wait && present != nil && present != s {
		slot, s = -1-slot*len(r.servers)-present.slot, present
	}
	return route{pipeline: s.pipeline, slot: slot, server: s}
}

func (r *ring) isMoved(n *pipeline, key string) bool {
	own, _ := r.owners(r.hashTag(tagForKey(key)))
	return own.pipeline != n
}
