package stats

import "runtime"

// Service counts what happens to the service as a whole.
type Service struct {
	ConfigLoadSuccess *Counter
	ConfigLoadError   *Counter
	GlobalShadowMode  *Counter // refusals that SHADOW_MODE turned into OK
	RedisError        *Counter // calls that failed because the store did
	ServiceError      *Counter // calls that could not be decided
}

// Service returns the service's counters, the same ones every time.
func (s *Store) Service() Service {
	service := s.scopeOf("service")
	call := service.Scope("call.should_rate_limit")
	return Service{
		ConfigLoadSuccess: service.Counter("config_load_success"),
		ConfigLoadError:   service.Counter("config_load_error"),
		GlobalShadowMode:  service.Counter("global_shadow_mode"),
		RedisError:        call.Counter("redis_error"),
		ServiceError:      call.Counter("service_error"),
	}
}

// scopeOf returns ratelimit.name with the store's tags; it counts no reserved
// tags, which New has done for this scope.
func (s *Store) scopeOf(name string) *Scope {
	return &Scope{store: s, name: "ratelimit." + name, tags: s.tags}
}

// Runtime has the Go runtime's memory, collector and goroutine numbers set under
// scope at each flush.
func Runtime(scope *Scope) {
	scope.store.Generate(func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		for name, value := range map[string]uint64{
			"alloc": m.Alloc, "sys": m.Sys, "heapAlloc": m.HeapAlloc, "heapSys": m.HeapSys, "heapIdle": m.HeapIdle, "heapInuse": m.HeapInuse,
			"heapReleased": m.HeapReleased, "heapObjects": m.HeapObjects, "nextGC": m.NextGC, "lastGC": m.LastGC,
			"gcCPUPercent": uint64(m.GCCPUFraction * 100), "numGoroutine": uint64(runtime.NumGoroutine()),
		} {
			scope.Gauge(name).Set(value)
		}
		for name, value := range map[string]uint64{
			"totalAlloc": m.TotalAlloc, "mallocs": m.Mallocs, "frees": m.Frees, "pauseTotalNs": m.PauseTotalNs, "numGC": uint64(m.NumGC),
		} {
			scope.Counter(name).Set(value)
		}
	})
}
