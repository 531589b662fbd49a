package ratelimit

import (
	"context"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/weirlimit/weir/internal/compat/envoy/stats"
)

// methods counts and times the calls of each gRPC method.
type methods struct {
	scope *stats.Scope
	known sync.Map // *method by full name; as many as there are registered
}

type method struct {
	total *stats.Counter
	time  *stats.Timer
}

// measureCall is called around every call.
func (m *methods) measureCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	began := time.Now()
	of := m.findMethod(info.FullMethod)
	of.total.Inc()
	res, err := next(ctx, req)
	of.time.Observe(time.Since(began).Milliseconds())
	return res, err
}

func (m *methods) findMethod(full string) *method {
	of, ok := m.known.Load(full)
	if !ok {
		name := path.Base(full)
		of, _ = m.known.LoadOrStore(full, &method{m.scope.Counter(name + ".total_requests"), m.scope.Timer(name + ".response_time")})
	}
	return of.(*method)
}
