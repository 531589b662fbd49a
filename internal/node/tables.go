package node

import (
	"maps"
	"slices"

	"github.com/weirlimit/weir/internal/insight/queue/kafka"
	"github.com/weirlimit/weir/internal/insight/queue/rabbitmq"
)

// stores open the stores there are, by their kind.
var stores = map[string]openStore{
	"memory":    openMemory,
	"memcached": openMemcached,
	"redis":     openRedis,
}

// queues are the queues that events can go to, by their kind.
var queues = map[string]queue{
	"kafka":    {kafka.Open, kafka.Consume},
	"rabbitmq": {rabbitmq.Open, rabbitmq.Consume},
}

// databases keep what events tell, by their kind.
var databases = map[string]database{
	"sqlite":   {open: openSQLite},
	"postgres": {openPostgres, postgresLate},
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
