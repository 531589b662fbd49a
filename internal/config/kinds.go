package config

import (
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memcached"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
)

// StoreKind is what the stores of a URL's scheme have in common.
type StoreKind struct {
	// Name is what package node opens it by, and what it is called in spans.
	Name string
	// Check says why it cannot serve a limit.
	Check func(*weir.Limit) error
}

var (
	memcachedKind = StoreKind{"memcached", checkOf(memcached.Check)}
	redisKind     = StoreKind{"redis", checkOf(redis.Check)}
)

// storeKinds are the stores there are, by the scheme of their URL.
var storeKinds = map[string]StoreKind{
	"memory":          {"memory", memory.Check},
	"memcached":       memcachedKind,
	"redis":           redisKind,
	"rediss":          redisKind,
	"redis+unix":      redisKind,
	"redis+sentinel":  redisKind,
	"rediss+sentinel": redisKind,
	"redis+cluster":   redisKind,
	"rediss+cluster":  redisKind,
	"redis+ring":      redisKind,
	"rediss+ring":     redisKind,
}

// queueKinds are the queues that events can go to, by the scheme of their URL, beside
// local: and off.
var queueKinds = map[string]string{"kafka": "kafka", "kafkas": "kafka", "amqp": "rabbitmq", "amqps": "rabbitmq"}

// databaseKinds keep what events tell, by the scheme of their URL.
var databaseKinds = map[string]string{"memory": "sqlite", "sqlite": "sqlite", "postgres": "postgres", "postgresql": "postgres"}

// checkOf returns the check of limits for nodes that share a store whose own is check.
func checkOf(check func(*weir.Limit) error) func(*weir.Limit) error {
	return func(l *weir.Limit) error {
		switch {
		case l.Consistency.Mode == params.ConsistencyLocal:
			return memory.Check(l)
		case l.Traits()&weir.Sketches != 0:
			return fmt.Errorf("%s stays on its node: add consistency: local, or use sliding_window", l.Algorithm.Name())
		}
		return check(l)
	}
}
