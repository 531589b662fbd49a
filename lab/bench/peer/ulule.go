package peer

import (
	"context"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

// openUlule opens ulule/limiter on its memory store with its defaults. It
// counts in windows that begin with a key's first request.
func openUlule(limit Limit) (Allow, func(), error) {
	l := limiter.New(memory.NewStore(), limiter.Rate{Limit: limit.Burst, Period: limit.Window()})
	ctx := context.Background()
	allow := func(key string) bool {
		c, err := l.Get(ctx, key)
		return err == nil && !c.Reached
	}
	return allow, func() {}, nil
}
