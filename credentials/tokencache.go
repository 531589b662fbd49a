package credentials

import (
	"crypto/sha256"
	"sync"
)

// tokenShards divide the cache, so that requests seldom meet at a lock.
const tokenShards = 16

// tokenCache remembers verified tokens by their SHA-256. A shard has a young
// and an old half; when the young one is full it becomes the old one, which is
// forgotten: what was not asked for in between has to be verified again. Safe
// for concurrent use.
type tokenCache struct {
	half   int // tokens in a half of a shard
	shards [tokenShards]tokenShard
}

type tokenShard struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]*verified
}

func newTokenCache(size int) *tokenCache {
	return &tokenCache{half: max(size/(2*tokenShards), 1)}
}

func (t *tokenCache) findToken(id [sha256.Size]byte) *verified {
	s := &t.shards[id[0]%tokenShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.young[id]; c != nil {
		return c
	}
	c := s.old[id]
	if c != nil {
		s.storeYoung(id, c, t.half)
	}
	return c
}

func (t *tokenCache) storeToken(id [sha256.Size]byte, c *verified) {
	s := &t.shards[id[0]%tokenShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storeYoung(id, c, t.half)
}

// storeYoung puts c into the young half. Requires: mu.
func (s *tokenShard) storeYoung(id [sha256.Size]byte, c *verified, half int) {
	if s.young == nil || len(s.young) >= half {
		s.old, s.young = s.young, make(map[[sha256.Size]byte]*verified)
	}
	s.young[id] = c
}
