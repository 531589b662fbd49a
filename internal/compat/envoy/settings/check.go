package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Store names where counters are kept.
type Store int

// The stores that Settings choose among.
const (
	StoreMemory Store = iota
	StoreRedis
	StoreMemcache
)

// ChooseStore returns where counters are kept: BACKEND_TYPE, except that without a
// Redis to be found they are kept in this process. exists reports whether a
// file is there.
func (s *Settings) ChooseStore(exists func(path string) bool) Store {
	switch {
	case s.BackendType == "memcache":
		return StoreMemcache
	case s.set["REDIS_URL"] && s.RedisURL != "", exists(s.RedisURL) && s.RedisURL != "":
		return StoreRedis
	}
	return StoreMemory
}

// IsSocket reports whether a Unix socket has that path.
func IsSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

var srvName = regexp.MustCompile(`^_(.+?)\._(.+?)\.(.+)$`)

// SplitSRV splits MEMCACHE_SRV into service, protocol and name.
func (s *Settings) SplitSRV() (service, proto, name string, err error) {
	m := srvName.FindStringSubmatch(s.MemcacheSRV)
	if m == nil {
		return "", "", "", fmt.Errorf("MEMCACHE_SRV=%q is not _service._proto.name", s.MemcacheSRV)
	}
	return m[1], m[2], m[3], nil
}

// Check refuses combinations that Envoy's service refuses at start, and values
// that it would die of later.
func (s *Settings) Check() error {
	var wrong []error
	refuse := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }

	if sinks := countTrue(s.UseDogStatsd, s.UseStatsd, s.UsePrometheus); sinks > 1 && !s.DisableStats {
		refuse("unable to use more than one stats sink at the same time: set one of USE_DOG_STATSD, USE_STATSD (true unless set to false), USE_PROMETHEUS")
	}
	if s.StatsFlushInterval <= 0 {
		refuse("STATS_FLUSH_INTERVAL=%s must be more than 0", s.StatsFlushInterval)
	}
	if !slices.Contains([]string{"tcp", "tcp4", "tcp6", "udp", "udp4", "udp6"}, s.StatsdProtocol) {
		refuse("STATSD_PROTOCOL=%q is neither tcp nor udp", s.StatsdProtocol)
	}
	if s.UseStatsd && !s.DisableStats {
		if _, err := strconv.Atoi(s.GostatsFlushSeconds); s.GostatsFlushSeconds != "" && err != nil {
			refuse("GOSTATS_FLUSH_INTERVAL_SECONDS=%q: not a whole number", s.GostatsFlushSeconds)
		}
		if _, err := strconv.ParseBool(s.GostatsNoLines); s.GostatsNoLines != "" && err != nil {
			refuse("GOSTATS_LOGGING_SINK_DISABLED=%q: neither true nor false", s.GostatsNoLines)
		}
	}
	if _, err := ParseLevel(s.LogLevel); err != nil {
		refuse("LOG_LEVEL=%q: %w", s.LogLevel, err)
	}
	if s.ConfigType != "FILE" && s.ConfigType != "GRPC_XDS_SOTW" {
		refuse("CONFIG_TYPE=%q is neither FILE nor GRPC_XDS_SOTW", s.ConfigType)
	}
	switch s.BackendType {
	case "redis", "":
		if s.ChooseStore(IsSocket) == StoreRedis {
			wrong = append(wrong, s.checkRedis()...)
		}
	case "memcache":
		if s.MemcacheSRV != "" && len(s.MemcacheHostPort) > 0 {
			refuse("both MEMCACHE_HOST_PORT and MEMCACHE_SRV are set: unset one")
		} else if s.MemcacheSRV != "" {
			if _, _, _, err := s.SplitSRV(); err != nil {
				wrong = append(wrong, err)
			}
		}
	default:
		refuse("BACKEND_TYPE=%q is neither redis nor memcache", s.BackendType)
	}
	if s.GRPCServerUseTLS && filepath.Dir(s.GRPCServerTLSCert) != filepath.Dir(s.GRPCServerTLSKey) {
		refuse("GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY must lie in the same directory")
	}
	if s.TracingEnabled && !slices.Contains([]string{"http", "grpc", ""}, s.TracingProtocol) {
		refuse("TRACING_EXPORTER_PROTOCOL=%q is neither http nor grpc", s.TracingProtocol)
	}
	return errors.Join(wrong...)
}

func countTrue(flags ...bool) (n int) {
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

// Redis holds the variables of one Redis, the main one or that for limits per
// second.
type Redis struct {
	Prefix       string // of its variables: REDIS or REDIS_PERSECOND
	SocketType   string
	Type         string // single, sentinel or cluster
	URL          string
	Auth         string
	SentinelAuth string
	TLS          bool
	Parallelism  int
	PoolOnEmpty  string
}

// Redises returns the main Redis and, if REDIS_PERSECOND, the other.
func (s *Settings) Redises() []Redis {
	all := []Redis{{"REDIS", s.RedisSocketType, strings.ToLower(s.RedisType), s.RedisURL,
		s.RedisAuth, s.RedisSentinelAuth, s.RedisTLS, s.RedisParallelism, s.RedisPoolOnEmpty}}
	if s.PerSecond {
		all = append(all, Redis{"REDIS_PERSECOND", s.PerSecondSocketType, strings.ToLower(s.PerSecondType), s.PerSecondURL,
			s.PerSecondAuth, s.PerSecondSentinelAuth, s.PerSecondTLS, s.PerSecondParallelism, s.PerSecondPoolOnEmpty})
	}
	return all
}

func (s *Settings) checkRedis() (wrong []error) {
	for _, r := range s.Redises() {
		refuse := func(format string, args ...any) {
			wrong = append(wrong, fmt.Errorf(r.Prefix+format, args...))
		}
		switch r.Type {
		case "single", "cluster":
		case "sentinel":
			if !strings.Contains(r.URL, ",") {
				refuse("_URL=%q must be the master's name and the sentinels: name,host:port,...", r.URL)
			}
		default:
			refuse("_TYPE=%q is not SINGLE, SENTINEL or CLUSTER", r.Type)
		}
		switch on := strings.ToUpper(r.PoolOnEmpty); on {
		case "CREATE", "ERROR":
			refuse("_POOL_ON_EMPTY_BEHAVIOR=%s is not supported: remove it or set WAIT", on)
		}
		if r.Type == "cluster" && r.Parallelism < 0 {
			refuse("_CLUSTER_PIPELINE_PARALLELISM=%d must be at least 0", r.Parallelism)
		}
	}
	return wrong
}
