// Package settings reads the environment variables that configure Envoy's rate
// limit service, by the same rules, into one struct.
//
// Parse reads, Check refuses what the service would refuse at start, and Notes
// says which of the variables that were set mean something else here.
package settings

import "time"

// Settings holds every variable. The tags are the documentation: env is the
// variable, default what an unset one means, doc what it does, and differs what
// it does here that it does not do there. docs/reference/generated/ratelimit.md is made from them.
type Settings struct {
	Host                  string        `env:"HOST" default:"0.0.0.0" group:"Listeners" doc:"address of the HTTP listener (/json, /healthcheck)"`
	Port                  int           `env:"PORT" default:"8080" doc:"port of the HTTP listener"`
	DebugHost             string        `env:"DEBUG_HOST" default:"0.0.0.0" doc:"address of the debug listener"`
	DebugPort             int           `env:"DEBUG_PORT" default:"6070" doc:"port of the debug listener"`
	GRPCUDS               string        `env:"GRPC_UDS" doc:"path of a Unix socket for gRPC; wins over GRPC_HOST and GRPC_PORT" differs:"a socket left behind by a dead process is replaced"`
	GRPCHost              string        `env:"GRPC_HOST" default:"0.0.0.0" doc:"address of the gRPC listener"`
	GRPCPort              int           `env:"GRPC_PORT" default:"8081" doc:"port of the gRPC listener"`
	GRPCMaxConnectionAge  time.Duration `env:"GRPC_MAX_CONNECTION_AGE" default:"24h" doc:"a gRPC connection older than this (give or take a tenth) is told to go away"`
	GRPCMaxAgeGrace       time.Duration `env:"GRPC_MAX_CONNECTION_AGE_GRACE" default:"1h" doc:"how long calls on such a connection may go on"`
	DrainDelay            time.Duration `env:"WEIR_DRAIN_DELAY" default:"0s" doc:"how long gRPC calls are still answered after SIGTERM while health fails: above what Envoy's health checks need" differs:"not there; connections end at once"`
	GRPCServerUseTLS      bool          `env:"GRPC_SERVER_USE_TLS" default:"false" doc:"TLS on the gRPC listener"`
	GRPCServerTLSCert     string        `env:"GRPC_SERVER_TLS_CERT" doc:"certificate chain, PEM; read again when it changes. It and its key lie in one directory"`
	GRPCServerTLSKey      string        `env:"GRPC_SERVER_TLS_KEY" doc:"private key, PEM; read again when it changes"`
	GRPCClientTLSCACert   string        `env:"GRPC_CLIENT_TLS_CACERT" doc:"CA of client certificates, PEM; if set, clients must have one" differs:"the system's CAs do not count beside it"`
	GRPCClientTLSSAN      string        `env:"GRPC_CLIENT_TLS_SAN" doc:"name that a client's certificate must carry"`
	LogLevel              string        `env:"LOG_LEVEL" default:"WARN" group:"Log" doc:"panic, fatal, error, warn, info, debug or trace; case does not matter" differs:"panic and fatal log what error logs, trace what debug logs"`
	LogFormat             string        `env:"LOG_FORMAT" default:"text" doc:"json writes @timestamp and @message; anything else is text"`
	ConfigType            string        `env:"CONFIG_TYPE" default:"FILE" group:"Rules" doc:"FILE, or GRPC_XDS_SOTW for rules from an xDS server"`
	ForceStart            bool          `env:"FORCE_START_WITHOUT_INITIAL_CONFIG" default:"false" doc:"do not wait for the first rules before listening"`
	MergeDomainConfig     bool          `env:"MERGE_DOMAIN_CONFIG" default:"false" doc:"files may share a domain; their descriptors are put together"`
	RuntimeRoot           string        `env:"RUNTIME_ROOT" default:"/srv/runtime_data/current" doc:"directory of the rules, or a symbolic link to it"`
	RuntimeSubdirectory   string        `env:"RUNTIME_SUBDIRECTORY" doc:"directory below RUNTIME_ROOT. With RUNTIME_WATCH_ROOT=true and this unset there are no rules"`
	RuntimeAppDirectory   string        `env:"RUNTIME_APPDIRECTORY" default:"config" doc:"directory below that which holds the files"`
	RuntimeIgnoreDotFiles bool          `env:"RUNTIME_IGNOREDOTFILES" default:"false" doc:"pass over files and directories whose name begins with a dot" differs:"what lies in a directory that begins with .. (as Kubernetes makes them) is always passed over"`
	RuntimeWatchRoot      bool          `env:"RUNTIME_WATCH_ROOT" default:"true" doc:"true: rules change when RUNTIME_ROOT, a symbolic link, is swapped. false: when a file in the directory changes" differs:"only files ending in .yaml or .yml count; what changed is also looked for every 30 s"`

	XDSNodeID          string            `env:"CONFIG_GRPC_XDS_NODE_ID" default:"default" group:"Rules over xDS" doc:"node id to send"`
	XDSNodeMetadata    string            `env:"CONFIG_GRPC_XDS_NODE_METADATA" doc:"node metadata to send: k=v,k=v"`
	XDSServerURL       string            `env:"CONFIG_GRPC_XDS_SERVER_URL" default:"localhost:18000" doc:"address of the xDS server"`
	XDSConnectRetry    time.Duration     `env:"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL" default:"3s" doc:"pause between attempts to open a stream"`
	XDSHeaders         map[string]string `env:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS" doc:"metadata to send with the stream: k:v,k:v"`
	XDSServerUseTLS    bool              `env:"CONFIG_GRPC_XDS_SERVER_USE_TLS" default:"false" doc:"TLS to the xDS server"`
	XDSClientTLSCert   string            `env:"CONFIG_GRPC_XDS_CLIENT_TLS_CERT" doc:"certificate to show it, PEM"`
	XDSClientTLSKey    string            `env:"CONFIG_GRPC_XDS_CLIENT_TLS_KEY" doc:"key of that certificate, PEM"`
	XDSServerTLSCACert string            `env:"CONFIG_GRPC_XDS_SERVER_TLS_CACERT" doc:"CA of the xDS server's certificate, PEM (beside it the system's CAs count)"`
	XDSServerTLSSAN    string            `env:"CONFIG_GRPC_XDS_SERVER_TLS_SAN" doc:"name that its certificate must carry, in place of its host name"`
	XDSBackoffInitial  time.Duration     `env:"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL" default:"10s" doc:"pause before the first reconnect"`
	XDSBackoffMax      time.Duration     `env:"XDS_CLIENT_BACKOFF_MAX_INTERVAL" default:"60s" doc:"longest pause between reconnects"`
	XDSBackoffFactor   float64           `env:"XDS_CLIENT_BACKOFF_RANDOM_FACTOR" default:"0.5" doc:"factor by which the pause changes each time"`
	XDSBackoffJitter   bool              `env:"XDS_CLIENT_BACKOFF_JITTER" default:"true" doc:"choose the pause at random between the first and the one due"`
	XDSMaxMessageBytes int               `env:"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES" doc:"largest message from the xDS server; unset means gRPC's 4 MiB"`

	UseDogStatsd           bool              `env:"USE_DOG_STATSD" default:"false" group:"Statistics" doc:"send statistics to dogstatsd"`
	DogStatsdMogrifiers    []string          `env:"USE_DOG_STATSD_MOGRIFIERS" doc:"names of mogrifiers, tried in order; each is set by DOG_STATSD_MOGRIFIER_<NAME>_PATTERN, _NAME and _TAGS (k:v,k:v), with $1 and so on for what the pattern caught"`
	UseStatsd              bool              `env:"USE_STATSD" default:"true" doc:"send statistics to statsd. With this, dogstatsd and Prometheus all off, they are written to standard error as JSON"`
	StatsdHost             string            `env:"STATSD_HOST" default:"localhost" doc:"host of statsd or dogstatsd"`
	StatsdPort             int               `env:"STATSD_PORT" default:"8125" doc:"its port"`
	StatsdProtocol         string            `env:"STATSD_PROTOCOL" default:"tcp" emptyunset:"true" doc:"tcp or udp (statsd only; dogstatsd is always udp)"`
	ExtraTags              map[string]string `env:"EXTRA_TAGS" doc:"tags on every statistic: k:v,k:v"`
	StatsFlushInterval     time.Duration     `env:"STATS_FLUSH_INTERVAL" default:"10s" doc:"how often counters and gauges are sent; timers go every second"`
	DisableStats           bool              `env:"DISABLE_STATS" default:"false" doc:"send none"`
	UsePrometheus          bool              `env:"USE_PROMETHEUS" default:"false" doc:"serve statistics to Prometheus; needs USE_STATSD=false"`
	PrometheusAddr         string            `env:"PROMETHEUS_ADDR" default:":9090" doc:"address to serve them on" differs:"serves metrics only, not Go's debug pages too; an address in use ends the process"`
	PrometheusPath         string            `env:"PROMETHEUS_PATH" default:"/metrics" doc:"path to serve them on"`
	PrometheusMapperYAML   string            `env:"PROMETHEUS_MAPPER_YAML" doc:"file that maps statistics to series, as statsd_exporter reads it, in place of the mapping built in"`
	PrometheusMilliseconds bool              `env:"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS" default:"false" doc:"response times in milliseconds, though the series' name says seconds"`
	GostatsFlushSeconds    string            `env:"GOSTATS_FLUSH_INTERVAL_SECONDS" emptyunset:"true" doc:"no effect, but must be a whole number if USE_STATSD"`
	GostatsNoLines         string            `env:"GOSTATS_LOGGING_SINK_DISABLED" emptyunset:"true" doc:"no effect, but must be a boolean if USE_STATSD"`
	StatsMaxKeys           int               `env:"WEIR_STATS_MAX_KEYS" default:"10000" doc:"how many metric keys that requests bring are counted by their own name; further ones share DOMAIN.overflow" differs:"not there; its statistics are unbounded"`

	ExpirationJitterMaxSeconds int64   `env:"EXPIRATION_JITTER_MAX_SECONDS" default:"300" group:"Decisions" doc:"up to so many seconds are added at random to how long the store keeps a counter"`
	LocalCacheBytes            int     `env:"LOCAL_CACHE_SIZE_IN_BYTES" default:"0" doc:"memory for remembering which counters are over their limit; 0 remembers none"`
	NearLimitRatio             float32 `env:"NEAR_LIMIT_RATIO" default:"0.8" doc:"the part of a limit from which on hits count as near it, in statistics"`
	CacheKeyPrefix             string  `env:"CACHE_KEY_PREFIX" doc:"put before every counter's name in the store"`
	BackendType                string  `env:"BACKEND_TYPE" default:"redis" doc:"redis or memcache" differs:"redis with REDIS_URL unset decides in this process, unless the default socket exists"`
	StopIncrementWhenOver      bool    `env:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" default:"false" doc:"when one limit of a request is over, do not count the others (Redis only)"`
	ShadowMode                 bool    `env:"SHADOW_MODE" default:"false" doc:"answer OK always, and count what would have been refused"`
	QuotaMode                  bool    `env:"QUOTA_MODE" default:"false" doc:"treat every descriptor as if it had quota_mode"`
	ResponseDynamicMetadata    bool    `env:"RESPONSE_DYNAMIC_METADATA" default:"false" doc:"answer with dynamic metadata: the request, and what the rules say of descriptors that passed"`
	ResponseHeaders            bool    `env:"LIMIT_RESPONSE_HEADERS_ENABLED" default:"false" doc:"answer with the three headers"`
	LimitHeader                string  `env:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit" doc:"name of the header with the limit" differs:"an empty name is the default one"`
	RemainingHeader            string  `env:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining" doc:"name of the header with what remains" differs:"an empty name is the default one"`
	ResetHeader                string  `env:"LIMIT_RESET_HEADER" default:"RateLimit-Reset" doc:"name of the header with the seconds until the window ends" differs:"an empty name is the default one"`
	HealthyWithConfig          bool    `env:"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED" default:"false" doc:"unhealthy until rules with at least one domain are loaded"`

	RedisSocketType      string        `env:"REDIS_SOCKET_TYPE" default:"unix" group:"Redis" doc:"unix or tcp"`
	RedisType            string        `env:"REDIS_TYPE" default:"SINGLE" doc:"SINGLE, SENTINEL or CLUSTER; case does not matter"`
	RedisURL             string        `env:"REDIS_URL" default:"/var/run/nutcracker/ratelimit.sock" doc:"socket or host:port; SENTINEL: master name,host:port,...; CLUSTER: host:port,..." differs:"unset: decides in this process, without Redis, unless the default socket exists"`
	RedisPoolSize        int           `env:"REDIS_POOL_SIZE" default:"10" doc:"connections" differs:"no effect: calls share one connection to a server, in pipelines"`
	RedisAuth            string        `env:"REDIS_AUTH" doc:"password, or user:password"`
	RedisSentinelAuth    string        `env:"REDIS_SENTINEL_AUTH" doc:"the same for the sentinels"`
	RedisTLS             bool          `env:"REDIS_TLS" default:"false" doc:"TLS to Redis"`
	RedisTLSClientCert   string        `env:"REDIS_TLS_CLIENT_CERT" doc:"certificate to show, PEM"`
	RedisTLSClientKey    string        `env:"REDIS_TLS_CLIENT_KEY" doc:"its key, PEM"`
	RedisTLSCACert       string        `env:"REDIS_TLS_CACERT" doc:"CA of Redis's certificate, PEM (beside it the system's CAs count)"`
	RedisTLSSkipHostname bool          `env:"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION" default:"false" doc:"accept a certificate for another name; its CA is still checked"`
	RedisPipelineWindow  time.Duration `env:"REDIS_PIPELINE_WINDOW" default:"0" doc:"cluster mode: wait so long for more commands before writing" differs:"commands that wait are written together anyway"`
	RedisPipelineLimit   int           `env:"REDIS_PIPELINE_LIMIT" default:"0" doc:"no effect"`
	RedisParallelism     int           `env:"REDIS_CLUSTER_PIPELINE_PARALLELISM" default:"1" doc:"cluster mode: how many keys' commands go out at a time; 0 means REDIS_POOL_SIZE" differs:"all go out at a time"`
	RedisTimeout         time.Duration `env:"REDIS_TIMEOUT" default:"10s" doc:"how long connecting may take" differs:"bounds a decision's call to Redis too"`
	RedisPoolOnEmpty     string        `env:"REDIS_POOL_ON_EMPTY_BEHAVIOR" default:"WAIT" doc:"WAIT; CREATE and ERROR are refused"`
	RedisHealthCheck     bool          `env:"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION" default:"false" doc:"unhealthy while there is no connection to Redis"`
	RedisStartupInitial  time.Duration `env:"REDIS_STARTUP_INITIAL_INTERVAL" default:"1s" doc:"pause after the first failed attempt to reach Redis at start"`
	RedisStartupMax      time.Duration `env:"REDIS_STARTUP_MAX_INTERVAL" default:"30s" doc:"longest pause between attempts"`
	RedisStartupElapsed  time.Duration `env:"REDIS_STARTUP_MAX_ELAPSED_TIME" default:"0" doc:"give up after so long; 0 means never"`

	PerSecond               bool          `env:"REDIS_PERSECOND" default:"false" group:"Redis for limits per second" doc:"keep counters of limits per second in a Redis of their own"`
	PerSecondSocketType     string        `env:"REDIS_PERSECOND_SOCKET_TYPE" default:"unix" doc:"as REDIS_SOCKET_TYPE"`
	PerSecondType           string        `env:"REDIS_PERSECOND_TYPE" default:"SINGLE" doc:"as REDIS_TYPE"`
	PerSecondURL            string        `env:"REDIS_PERSECOND_URL" default:"/var/run/nutcracker/ratelimitpersecond.sock" doc:"as REDIS_URL"`
	PerSecondPoolSize       int           `env:"REDIS_PERSECOND_POOL_SIZE" default:"10" doc:"as REDIS_POOL_SIZE"`
	PerSecondAuth           string        `env:"REDIS_PERSECOND_AUTH" doc:"as REDIS_AUTH"`
	PerSecondSentinelAuth   string        `env:"REDIS_PERSECOND_SENTINEL_AUTH" doc:"as REDIS_SENTINEL_AUTH"`
	PerSecondTLS            bool          `env:"REDIS_PERSECOND_TLS" default:"false" doc:"as REDIS_TLS; the certificates are the same"`
	PerSecondPipelineWindow time.Duration `env:"REDIS_PERSECOND_PIPELINE_WINDOW" default:"0" doc:"as REDIS_PIPELINE_WINDOW"`
	PerSecondPipelineLimit  int           `env:"REDIS_PERSECOND_PIPELINE_LIMIT" default:"0" doc:"no effect"`
	PerSecondParallelism    int           `env:"REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM" default:"1" doc:"as REDIS_CLUSTER_PIPELINE_PARALLELISM"`
	PerSecondTimeout        time.Duration `env:"REDIS_PERSECOND_TIMEOUT" default:"10s" doc:"as REDIS_TIMEOUT"`
	PerSecondPoolOnEmpty    string        `env:"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR" default:"WAIT" doc:"as REDIS_POOL_ON_EMPTY_BEHAVIOR"`

	MemcacheHostPort        []string      `env:"MEMCACHE_HOST_PORT" group:"Memcached" doc:"servers: host:port,host:port"`
	MemcacheSRV             string        `env:"MEMCACHE_SRV" doc:"SRV record that names the servers, in place of MEMCACHE_HOST_PORT: _service._proto.name"`
	MemcacheSRVRefresh      time.Duration `env:"MEMCACHE_SRV_REFRESH" default:"0" doc:"look the record up again every so long; 0 means once"`
	MemcacheMaxIdleConns    int           `env:"MEMCACHE_MAX_IDLE_CONNS" default:"2" doc:"idle connections to keep per server"`
	MemcacheTLS             bool          `env:"MEMCACHE_TLS" default:"false" doc:"TLS to Memcached"`
	MemcacheTLSClientCert   string        `env:"MEMCACHE_TLS_CLIENT_CERT" doc:"certificate to show, PEM"`
	MemcacheTLSClientKey    string        `env:"MEMCACHE_TLS_CLIENT_KEY" doc:"its key, PEM"`
	MemcacheTLSCACert       string        `env:"MEMCACHE_TLS_CACERT" doc:"CA of Memcached's certificate, PEM (beside it the system's CAs count)"`
	MemcacheTLSSkipHostname bool          `env:"MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION" default:"false" doc:"accept a certificate for another name; its CA is still checked"`

	TracingEnabled           bool    `env:"TRACING_ENABLED" default:"false" group:"Tracing" doc:"send traces over OTLP; where to is set by OTEL_EXPORTER_OTLP_ENDPOINT and its kin"`
	TracingServiceName       string  `env:"TRACING_SERVICE_NAME" default:"RateLimit" doc:"service.name"`
	TracingServiceNamespace  string  `env:"TRACING_SERVICE_NAMESPACE" doc:"service.namespace"`
	TracingServiceInstanceID string  `env:"TRACING_SERVICE_INSTANCE_ID" doc:"service.instance.id; unset means a random one"`
	TracingProtocol          string  `env:"TRACING_EXPORTER_PROTOCOL" default:"http" doc:"http or grpc"`
	TracingSamplingRate      float64 `env:"TRACING_SAMPLING_RATE" default:"1" doc:"share of traces to send; a trace that a caller has begun is followed as the caller says"`

	set map[string]bool // variables that were there
}
