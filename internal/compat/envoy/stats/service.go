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
	gauges := map[string]func(m *runtime.MemStats) uint64{
		"alloc":        func(m *runtime.MemStats) uint64 { return m.Alloc },
		"sys":          func(m *runtime.MemStats) uint64 { return m.Sys },
		"heapAlloc":    func(m *runtime.MemStats) uint64 { return m.HeapAlloc },
		"heapSys":      func(m *runtime.MemStats) uint64 { return m.HeapSys },
		"heapIdle":     func(m *runtime.MemStats) uint64 { return m.HeapIdle },
		"heapInuse":    func(m *runtime.MemStats) uint64 { return m.HeapInuse },
		"heapReleased": func(m *runtime.MemStats) uint64 { return m.HeapReleased },
		"heapObjects":  func(m *runtime.MemStats) uint64 { return m.HeapObjects },
		"nextGC":       func(m *runtime.MemStats) uint64 { return m.NextGC },
		"lastGC":       func(m *runtime.MemStats) uint64 { return m.LastGC },
		"gcCPUPercent": func(m *runtime.MemStats) uint64 { return uint64(m.GCCPUFraction * 100) },
		"numGoroutine": func(*runtime.MemStats) uint64 { return uint64(runtime.NumGoroutine()) },
	}
	counters := map[string]func(m *runtime.MemStats) uint64{
		"totalAlloc":   func(m *runtime.MemStats) uint64 { return m.TotalAlloc },
		"mallocs":      func(m *runtime.MemStats) uint64 { return m.Mallocs },
		"frees":        func(m *runtime.MemStats) uint64 { return m.Frees },
		"pauseTotalNs": func(m *runtime.MemStats) uint64 { return m.PauseTotalNs },
		"numGC":        func(m *runtime.MemStats) uint64 { return uint64(m.NumGC) },
	}
	scope.store.Generate(func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		for name, read := range gauges {
			scope.Gauge(name).Set(read(&m))
		}
		for name, read := range counters {
			scope.Counter(name).Set(read(&m))
		}
	})
}
