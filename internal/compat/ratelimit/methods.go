package ratelimit

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/weirlimit/weir/internal/compat/envoy/stats"
)

// methods counts and times the calls of each gRPC method.
type methods struct {
	scope *stats.Scope
	mu    sync.RWMutex
	known map[string]*method // by full name; as many as there are registered
}

type method struct {
	total *stats.Counter
	time  *stats.Timer
}

func newMethods(scope *stats.Scope) *methods {
	return &methods{scope: scope, known: map[string]*method{}}
}

// unary is called around every call.
func (m *methods) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	began := time.Now()
	of := m.find(info.FullMethod)
	of.total.Inc()
	res, err := next(ctx, req)
	of.time.Observe(time.Since(began).Milliseconds())
	return res, err
}

func (m *methods) find(full string) *method {
	m.mu.RLock()
	of := m.known[full]
	m.mu.RUnlock()
	if of != nil {
		return of
	}
	name := "unknown"
	if _, after, ok := strings.Cut(strings.TrimPrefix(full, "/"), "/"); ok {
		name = after
	}
	of = &method{m.scope.Counter(name + ".total_requests"), m.scope.Timer(name + ".response_time")}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[full] = of
	return of
}
