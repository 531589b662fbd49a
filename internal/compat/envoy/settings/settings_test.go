package settings_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
)

// env returns a Lookup of NAME=value pairs.
func env(pairs ...string) settings.Lookup {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == name {
				return v, true
			}
		}
		return "", false
	}
}

func TestDefaults(t *testing.T) {
	s, err := settings.Parse(env())
	if err != nil {
		t.Fatal(err)
	}
	if s.Port != 8080 || s.GRPCPort != 8081 || s.DebugPort != 6070 || s.Host != "0.0.0.0" ||
		s.GRPCMaxConnectionAge != 24*time.Hour || s.NearLimitRatio != 0.8 || !s.UseStatsd || s.UsePrometheus ||
		!s.RuntimeWatchRoot || s.RuntimeAppDirectory != "config" || s.RedisStartupElapsed != 0 || s.MemcacheHostPort != nil ||
		s.StatsdProtocol != "tcp" || s.XDSMaxMessageBytes != 0 || !s.XDSBackoffJitter || s.ExpirationJitterMaxSeconds != 300 {
		t.Errorf("defaults are %+v", s)
	}
	if err := s.Check(); err != nil {
		t.Errorf("defaults are refused: %v", err)
	}
}

func TestValues(t *testing.T) {
	for _, tt := range []struct {
		set   string
		field string
		want  any // nil: refused
	}{
		{"PORT=0x1F90", "Port", 8080},
		{"PORT=8_080", "Port", 8080},
		{"PORT=010", "Port", 8},
		{"PORT=", "Port", nil},
		{"PORT= 80", "Port", nil},
		{"PORT=80.5", "Port", nil},
		{"PORT=99999999999999999999", "Port", nil},
		{"USE_STATSD=f", "UseStatsd", false},
		{"USE_STATSD=FALSE", "UseStatsd", false},
		{"USE_STATSD=0", "UseStatsd", false},
		{"USE_STATSD=no", "UseStatsd", nil},
		{"USE_STATSD=", "UseStatsd", nil},
		{"STATS_FLUSH_INTERVAL=1h2m3.5s", "StatsFlushInterval", time.Hour + 2*time.Minute + 3500*time.Millisecond},
		{"STATS_FLUSH_INTERVAL=0", "StatsFlushInterval", time.Duration(0)},
		{"STATS_FLUSH_INTERVAL=10", "StatsFlushInterval", nil},
		{"NEAR_LIMIT_RATIO=0.5", "NearLimitRatio", float32(0.5)},
		{"NEAR_LIMIT_RATIO=1e60", "NearLimitRatio", nil},
		{"TRACING_SAMPLING_RATE=.25", "TracingSamplingRate", 0.25},
		{"EXPIRATION_JITTER_MAX_SECONDS=-1", "ExpirationJitterMaxSeconds", int64(-1)},
		{"MEMCACHE_HOST_PORT=a:1, b:2,", "MemcacheHostPort", []string{"a:1", " b:2", ""}},
		{"MEMCACHE_HOST_PORT=  ", "MemcacheHostPort", []string(nil)},
		{"EXTRA_TAGS=a:1,b: 2,a:3,:x,y:", "ExtraTags", map[string]string{"a": "3", "b": " 2", "": "x", "y": ""}},
		{"EXTRA_TAGS= ", "ExtraTags", map[string]string{}},
		{"EXTRA_TAGS=a:b:c", "ExtraTags", nil},
		{"EXTRA_TAGS=a", "ExtraTags", nil},
		{"EXTRA_TAGS=a:1,", "ExtraTags", nil},
		{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=", "XDSMaxMessageBytes", nil},
		{"STATSD_PROTOCOL=", "StatsdProtocol", "tcp"},
		{"REDIS_URL=", "RedisURL", ""},
		{"CACHE_KEY_PREFIX= x ", "CacheKeyPrefix", " x "},
		{"CACHE_KEY_PREFIX=" + strings.Repeat("x", 1<<18), "CacheKeyPrefix", nil},
	} {
		s, err := settings.Parse(env(tt.set))
		name := tt.set[:min(len(tt.set), 60)]
		if tt.want == nil {
			variable, _, _ := strings.Cut(tt.set, "=")
			if err == nil || !strings.Contains(err.Error(), variable) || len(err.Error()) > 500 {
				t.Errorf("%s: error is %v, want one that names the variable", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := reflect.ValueOf(*s).FieldByName(tt.field).Interface()
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %s is %#v, want %#v", name, tt.field, got, tt.want)
		}
	}
}

func TestEveryWrongVariableIsNamed(t *testing.T) {
	_, err := settings.Parse(env("PORT=x", "USE_STATSD=x"))
	if err == nil || !strings.Contains(err.Error(), "PORT=") || !strings.Contains(err.Error(), "USE_STATSD=") {
		t.Errorf("error is %v, want both named", err)
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		set  []string
		want string // empty: accepted
	}{
		{[]string{"USE_PROMETHEUS=true"}, "more than one stats sink"},
		{[]string{"USE_DOG_STATSD=true"}, "more than one stats sink"},
		{[]string{"USE_DOG_STATSD=true", "USE_PROMETHEUS=true", "USE_STATSD=false"}, "more than one stats sink"},
		{[]string{"USE_PROMETHEUS=true", "DISABLE_STATS=true"}, ""},
		{[]string{"USE_PROMETHEUS=true", "USE_STATSD=false"}, ""},
		{[]string{"STATS_FLUSH_INTERVAL=0"}, "STATS_FLUSH_INTERVAL"},
		{[]string{"GOSTATS_FLUSH_INTERVAL_SECONDS=5s"}, "GOSTATS_FLUSH_INTERVAL_SECONDS"},
		{[]string{"GOSTATS_FLUSH_INTERVAL_SECONDS=5s", "USE_STATSD=false"}, ""},
		{[]string{"GOSTATS_LOGGING_SINK_DISABLED=on"}, "GOSTATS_LOGGING_SINK_DISABLED"},
		{[]string{"STATSD_PROTOCOL=sctp"}, "STATSD_PROTOCOL"},
		{[]string{"LOG_LEVEL=loud"}, "LOG_LEVEL"},
		{[]string{"LOG_LEVEL=Trace"}, ""},
		{[]string{"CONFIG_TYPE=file"}, "CONFIG_TYPE"},
		{[]string{"CONFIG_TYPE=GRPC_XDS_SOTW"}, ""},
		{[]string{"BACKEND_TYPE=etcd"}, "BACKEND_TYPE"},
		{[]string{"BACKEND_TYPE="}, ""},
		{[]string{"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=a:1", "MEMCACHE_SRV=_a._tcp.b"}, "unset one"},
		{[]string{"BACKEND_TYPE=memcache", "MEMCACHE_SRV=b"}, "MEMCACHE_SRV"},
		{[]string{"BACKEND_TYPE=memcache", "MEMCACHE_SRV=_a._tcp.b.c"}, ""},
		{[]string{"REDIS_URL=x:1", "REDIS_TYPE=ring"}, "REDIS_TYPE"},
		{[]string{"REDIS_TYPE=ring"}, ""}, // no Redis, no matter
		{[]string{"REDIS_URL=x:1", "REDIS_TYPE=Sentinel"}, "REDIS_URL"},
		{[]string{"REDIS_URL=m,x:1", "REDIS_TYPE=Sentinel"}, ""},
		{[]string{"REDIS_URL=x:1", "REDIS_POOL_ON_EMPTY_BEHAVIOR=create"}, "CREATE"},
		{[]string{"REDIS_URL=x:1", "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR=ERROR"}, ""},
		{[]string{"REDIS_URL=x:1", "REDIS_PERSECOND=1", "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR=ERROR"}, "REDIS_PERSECOND_POOL"},
		{[]string{"REDIS_URL=x:1", "REDIS_TYPE=cluster", "REDIS_CLUSTER_PIPELINE_PARALLELISM=-1"}, "PARALLELISM"},
		{[]string{"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=/a/c", "GRPC_SERVER_TLS_KEY=/b/k"}, "same directory"},
		{[]string{"TRACING_ENABLED=true", "TRACING_EXPORTER_PROTOCOL=udp"}, "TRACING_EXPORTER_PROTOCOL"},
		{[]string{"TRACING_EXPORTER_PROTOCOL=udp"}, ""},
	} {
		s, err := settings.Parse(env(tt.set...))
		if err != nil {
			t.Errorf("%q: %v", tt.set, err)
			continue
		}
		err = s.Check()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: check says %v, want %q", tt.set, err, tt.want)
		}
	}
}

func TestStore(t *testing.T) {
	there := func(want string) func(string) bool { return func(path string) bool { return path == want } }
	for _, tt := range []struct {
		set    []string
		exists string
		want   settings.Store
	}{
		{nil, "none", settings.StoreMemory},
		{nil, "/var/run/nutcracker/ratelimit.sock", settings.StoreRedis},
		{[]string{"REDIS_URL="}, "", settings.StoreMemory},
		{[]string{"REDIS_URL=x:1"}, "none", settings.StoreRedis},
		{[]string{"REDIS_URL=x:1", "BACKEND_TYPE=memcache"}, "none", settings.StoreMemcache},
	} {
		s, err := settings.Parse(env(tt.set...))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.ChooseStore(there(tt.exists)); got != tt.want {
			t.Errorf("%q with %s there: %v, want %v", tt.set, tt.exists, got, tt.want)
		}
	}
}

func TestNotes(t *testing.T) {
	if notes := settings.NoteIneffective(env("PORT=1")); notes != nil {
		t.Errorf("notes are %q, want none", notes)
	}
	notes := settings.NoteIneffective(env("REDIS_PIPELINE_LIMIT=3", "GOSTATS_LOGGING_SINK_DISABLED=true"))
	if len(notes) != 2 || !strings.HasPrefix(notes[0], "REDIS_PIPELINE_LIMIT ") {
		t.Errorf("notes are %q, want two", notes)
	}
}

func TestMogrifiers(t *testing.T) {
	set := []string{
		"USE_DOG_STATSD_MOGRIFIERS=first,b",
		`DOG_STATSD_MOGRIFIER_FIRST_PATTERN=^a\.(.*)$`, "DOG_STATSD_MOGRIFIER_FIRST_NAME=a", "DOG_STATSD_MOGRIFIER_FIRST_TAGS=x:$1",
		"DOG_STATSD_MOGRIFIER_B_PATTERN=b", "DOG_STATSD_MOGRIFIER_B_NAME=c",
	}
	s, err := settings.Parse(env(set...))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Mogrifiers(env(set...))
	want := []settings.Mogrifier{
		{Name: "first", Pattern: `^a\.(.*)$`, Rename: "a", Tags: map[string]string{"x": "$1"}},
		{Name: "b", Pattern: "b", Rename: "c", Tags: map[string]string{}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("mogrifiers are %+v (%v), want %+v", got, err, want)
	}
	for _, missing := range []string{"PATTERN", "NAME"} {
		if _, err := s.Mogrifiers(func(name string) (string, bool) {
			if strings.HasSuffix(name, missing) {
				return "", false
			}
			return env(set...)(name)
		}); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v, want an error that says so", missing, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1", "true", "a:b,c:d", "10s", "", "-0x7f", "a,b", "1e9", ":", ","} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		s, err := settings.Parse(func(string) (string, bool) { return value, true })
		if err == nil {
			_ = s.Check()
		}
	})
}
