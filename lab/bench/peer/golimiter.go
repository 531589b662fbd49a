package peer

import (
	"context"

	"github.com/sethvargo/go-limiter/memorystore"
)

// openGoLimiter opens sethvargo/go-limiter with its defaults. It counts in
// windows that begin with a key's first request.
func openGoLimiter(limit Limit) (Allow, func(), error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(limit.Burst), Interval: limit.Window()})
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	allow := func(key string) bool {
		_, _, _, ok, err := store.Take(ctx, key)
		return ok && err == nil
	}
	return allow, func() { store.Close(ctx) }, nil
}
