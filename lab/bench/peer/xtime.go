package peer

import (
	"hash/maphash"
	"sync"

	"golang.org/x/time/rate"
)

// openSyncMap keeps one rate.Limiter per key in a sync.Map. Keys are never
// forgotten: neither x/time/rate nor the idiom has expiry.
func openSyncMap(limit Limit) (Allow, func(), error) {
	var limiters sync.Map
	every, burst := rate.Every(limit.Every), int(limit.Burst)
	allow := func(key string) bool {
		if l, ok := limiters.Load(key); ok {
			return l.(*rate.Limiter).Allow()
		}
		l, _ := limiters.LoadOrStore(key, rate.NewLimiter(every, burst))
		return l.(*rate.Limiter).Allow()
	}
	return allow, func() {}, nil
}

// shard is a map of limiters and its lock, alone on its cache line.
type shard struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
	_        [48]byte
}

// openShards spreads the limiters over 256 locked maps.
func openShards(limit Limit) (Allow, func(), error) {
	var shards [256]shard
	for i := range shards {
		shards[i].limiters = make(map[string]*rate.Limiter)
	}
	seed := maphash.MakeSeed()
	every, burst := rate.Every(limit.Every), int(limit.Burst)
	allow := func(key string) bool {
		s := &shards[maphash.String(seed, key)&255]
		s.mu.Lock()
		l, ok := s.limiters[key]
		if !ok {
			l = rate.NewLimiter(every, burst)
			s.limiters[key] = l
		}
		s.mu.Unlock()
		return l.Allow()
	}
	return allow, func() {}, nil
}
