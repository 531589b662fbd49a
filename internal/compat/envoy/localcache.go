package envoy

import (
	"hash/maphash"
	"sync"
)

// localCache remembers keys that are over their limit, so that no store is asked
// about them. It is told nothing of what the limit is or was: whoever counts
// under the key is refused until the entry is over. A nil one remembers nothing.
type localCache struct {
	seeds [2]maphash.Seed
	// longest is the longest key that is remembered, as in the cache of
	// envoyproxy/ratelimit.
	longest int
	shards  [cacheShards]cacheShard
}

const (
	// cacheShards is a power of two.
	cacheShards = 16
	// minCacheBytes is the least that the cache takes.
	minCacheBytes = 512 << 10
	// bytesPerKey is what a key takes in a map and in a ring.
	bytesPerKey = 96
)

// cacheShard is a map, and a ring of its keys in the order in which they came:
// the oldest makes room.
type cacheShard struct {
	mu    sync.Mutex
	until map[[2]uint64]int64
	ring  [][2]uint64
	next  int
	stats LocalCacheStats
}

// LocalCacheStats is what the local cache has done, in the words of
// envoyproxy/ratelimit.
type LocalCacheStats struct {
	// Entries is how many keys are remembered now.
	Entries uint64
	// Lookups were Hits or Misses; Expired of the misses were remembered too long.
	Lookups, Hits, Misses, Expired uint64
	// Evacuated keys made room for others; Overwritten ones were remembered anew.
	Evacuated, Overwritten uint64
}

func newLocalCache(bytes int64) *localCache {
	l := &localCache{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	bytes = max(bytes, minCacheBytes)
	l.longest = int(min(bytes/1024-24, 65535))
	room := bytes / bytesPerKey / cacheShards
	for i := range l.shards {
		s := &l.shards[i]
		s.until, s.ring = map[[2]uint64]int64{}, make([][2]uint64, room)
	}
	return l
}

// lockShard returns the hash of a key and its shard, locked.
func (l *localCache) lockShard(key []byte) ([2]uint64, *cacheShard) {
	h := [2]uint64{maphash.Bytes(l.seeds[0], key), maphash.Bytes(l.seeds[1], key)}
	s := &l.shards[h[0]&(cacheShards-1)]
	s.mu.Lock()
	return h, s
}

// isOverLimit reports whether key is remembered as over its limit.
func (l *localCache) isOverLimit(key []byte, now int64) bool {
	if l == nil {
		return false
	}
	h, s := l.lockShard(key)
	defer s.mu.Unlock()
	until, ok := s.until[h]
	s.stats.Lookups++
	switch {
	case ok && until > now:
		s.stats.Hits++
		return true
	case ok:
		s.stats.Expired++
		delete(s.until, h)
	}
	s.stats.Misses++
	return false
}

// remember remembers key for some seconds.
func (l *localCache) remember(key []byte, now, seconds int64) {
	if l == nil || len(key) > l.longest {
		return
	}
	h, s := l.lockShard(key)
	defer s.mu.Unlock()
	if _, ok := s.until[h]; ok {
		s.until[h] = now + seconds
		s.stats.Overwritten++
		return
	}
	oldest := s.ring[s.next]
	if _, ok := s.until[oldest]; ok {
		delete(s.until, oldest)
		s.stats.Evacuated++
	}
	s.until[h], s.ring[s.next] = now+seconds, h
	s.next = (s.next + 1) % len(s.ring)
}

// forgetKey lets a key be looked up again.
func (l *localCache) forgetKey(key []byte) {
	if l == nil {
		return
	}
	h, s := l.lockShard(key)
	delete(s.until, h)
	s.mu.Unlock()
}

// LocalCacheStats returns what the local cache has done; ok is false if there is
// none.
func (s *Service) LocalCacheStats() (t LocalCacheStats, ok bool) {
	if s.local == nil {
		return t, false
	}
	for i := range s.local.shards {
		c := &s.local.shards[i]
		c.mu.Lock()
		t.Entries += uint64(len(c.until))
		t.Lookups += c.stats.Lookups
		t.Hits += c.stats.Hits
		t.Misses += c.stats.Misses
		t.Expired += c.stats.Expired
		t.Evacuated += c.stats.Evacuated
		t.Overwritten += c.stats.Overwritten
		c.mu.Unlock()
	}
	return t, true
}
