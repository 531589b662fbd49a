package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/check"
	"github.com/weirlimit/weir/internal/config"
)

// Each setting is held to the bounds of its tags, and the error names it as it was given.
func TestSettingsAreBounded(t *testing.T) {
	f := func(change func(*config.Config), want string) {
		t.Helper()
		conf := config.Defaults()
		conf.Limits = []string{"5/minute"}
		change(conf)
		err := check.TryStart(conf)
		switch {
		case want == "" && err != nil:
			t.Errorf("got %v, want no error", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f(func(*config.Config) {}, "")
	f(func(c *config.Config) { c.StoreNodes = 0 }, "--store-nodes is 0: it must be between 1 and 10000")
	f(func(c *config.Config) { c.StoreNodes = 10_001 }, "--store-nodes is 10001: it must be between 1 and 10000")
	f(func(c *config.Config) { c.HTTP.MaxHeaderBytes = 2 << 20 }, "http.max_header_bytes is 2MiB: it must be between 1KiB and 1MiB")
	f(func(c *config.Config) { c.HTTP.ReadHeaderTimeout = 0 }, "http.read_header_timeout is 0s: a client could then hold")
	f(func(c *config.Config) { c.Drain.Timeout = -time.Second }, "--drain-timeout is -1s: it cannot be negative")
	f(func(c *config.Config) { c.GRPC.MaxUnsent = 1000 }, "grpc.max_unsent is 1000: give at least 1MiB")
	f(func(c *config.Config) { c.GRPC.MaxUnsent, c.GRPC.Listen = 1000, "" }, "")
	f(func(c *config.Config) { c.GRPC.CallTimeout = 0 }, "grpc.call_timeout is 0s: a client could then hold")
	f(func(c *config.Config) { c.RESP.Listen, c.RESP.MaxClients = "6380", 0 }, "resp.max_clients is 0: it must be between 1 and 1048576")
	f(func(c *config.Config) { c.Analytics.MaxClients = 9 }, "analytics.max_clients (WEIR_ANALYTICS_MAX_CLIENTS) is 9: it must be between 10 and 100000, or 0")
	f(func(c *config.Config) { c.Analytics.KeepDays = time.Minute }, "analytics.retention_days (WEIR_ANALYTICS_RETENTION_DAYS) is 1m0s: give at least 1h, or 0")
	f(func(c *config.Config) { c.Analytics.KeepDays, c.Analytics.URL = time.Minute, "off" }, "")
	f(func(c *config.Config) { c.OTel.Interval = time.Millisecond }, "otel.interval is 1ms: give at least 100ms, or 0")
	f(func(c *config.Config) { c.Events.Backlog = 999 }, "events.backlog is 999: it must be between 1000 and 10000000")
}
