package server

import (
	"maps"
	"slices"

	"github.com/weirlimit/weir/internal/insight/queue/kafka"
	"github.com/weirlimit/weir/internal/insight/queue/rabbitmq"
	"github.com/weirlimit/weir/store/memcached"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
)

// stores are the stores there are, by the scheme of their URL.
var stores = map[string]storeKind{
	"memory":          {openMemory, memory.Check},
	"memcached":       {openMemcached, checkOf(memcached.Check)},
	"redis":           {openRedis, checkOf(redis.Check)},
	"rediss":          {openRedis, checkOf(redis.Check)},
	"redis+unix":      {openRedis, checkOf(redis.Check)},
	"redis+sentinel":  {openRedis, checkOf(redis.Check)},
	"rediss+sentinel": {openRedis, checkOf(redis.Check)},
	"redis+cluster":   {openRedis, checkOf(redis.Check)},
	"rediss+cluster":  {openRedis, checkOf(redis.Check)},
	"redis+ring":      {openRedis, checkOf(redis.Check)},
	"rediss+ring":     {openRedis, checkOf(redis.Check)},
}

// queues are the queues that events can go to, by the scheme of their URL, beside
// local: and off.
var queues = map[string]queueKind{
	"kafka":  {kafka.Open, kafka.Consume},
	"kafkas": {kafka.Open, kafka.Consume},
	"amqp":   {rabbitmq.Open, rabbitmq.Consume},
	"amqps":  {rabbitmq.Open, rabbitmq.Consume},
}

// databases keep what events tell, by the scheme of their URL.
var databases = map[string]databaseKind{
	"memory":     {open: openSQLite},
	"sqlite":     {open: openSQLite},
	"postgres":   {openPostgres, postgresLate},
	"postgresql": {openPostgres, postgresLate},
}

// openFrontend builds a way in. One without an address is not opened.
type openFrontend func(s *Server) (frontend, error)

// frontends are the ways in, by their section of the configuration.
var frontends = map[string]openFrontend{
	"http":  openHTTP,
	"admin": openAdmin,
	"grpc":  openGRPC,
	"resp":  openRESP,
}

// grpcServices are what is served on the gRPC listener.
var grpcServices = map[string]openGRPCService{
	"ext_authz": openExtAuthz,
	"rls":       openRLS,
	"weir":      openLimitService,
}

// sections are the keys of frontends, in the order in which they are opened.
var sections = slices.Sorted(maps.Keys(frontends))
