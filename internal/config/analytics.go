package config

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/redact"
)

// Analytics configures what is kept of events and asked about.
type Analytics struct {
	URL               string        `yaml:"url" name:"analytics" default:"memory:" placeholder:"URL" help:"Database of analytics and the dashboard. It keeps events for /v1/analytics/ on the admin port: memory:, sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE, see docs/reference/analytics.md; off keeps nothing. memory: keeps the events of this process alone: where they go to a queue it means off, as other processes would miss what is taken out of it."`
	KeepMinutes       time.Duration `yaml:"retention_minutes" name:"analytics-retention-minutes" kong:"-" was:"analytics-keep-minutes" default:"0s" placeholder:"DURATION" least:"1h" or:"0" help:"Retention of counts by the minute. 0 means 168h, a week; 24h in memory."`
	KeepHours         time.Duration `yaml:"retention_hours" name:"analytics-retention-hours" kong:"-" was:"analytics-keep-hours" default:"0s" placeholder:"DURATION" least:"1h" or:"0" help:"Retention of counts by the hour. 0 means 2160h, 90 days; 24h in memory."`
	KeepDays          time.Duration `yaml:"retention_days" name:"analytics-retention-days" kong:"-" was:"analytics-keep-days" default:"0s" placeholder:"DURATION" least:"1h" or:"0" help:"Retention of counts by the day. 0 means 26280h, three years; 24h in memory."`
	KeepClientMinutes time.Duration `yaml:"retention_client_minutes" name:"analytics-retention-client-minutes" kong:"-" was:"analytics-keep-client-minutes" default:"0s" placeholder:"DURATION" least:"1h" or:"0" help:"Retention of clients by the minute. 0 means 48h; 24h in memory."`
	KeepClientHours   time.Duration `yaml:"retention_client_hours" name:"analytics-retention-client-hours" kong:"-" was:"analytics-keep-client-hours" default:"0s" placeholder:"DURATION" least:"1h" or:"0" help:"Retention of clients by the hour. 0 means 720h, 30 days; 24h in memory."`
	MaxClients        int64         `yaml:"max_clients" name:"analytics-max-clients" kong:"-" default:"0" placeholder:"N" least:"10" most:"100000" or:"0" help:"Most clients of a limit in a minute or an hour. 10 to 100000; the others are merged. 0 means 1000; 200 in memory."`
	MaxBytes          Bytes         `yaml:"max_bytes" name:"analytics-max-bytes" kong:"-" default:"0" placeholder:"BYTES" help:"Most bytes of all rows; above it the oldest are deleted. 0 means 8GiB in a file, 128MiB in memory, and no bound in PostgreSQL."`
}

// AnalyticsMemory keeps rows in this process.
const AnalyticsMemory = "memory:"

// DatabaseKind returns the kind of the database that the URL names.
func (a *Analytics) DatabaseKind() (string, error) {
	const flag = "--analytics (analytics.url)"
	if rest, ok := strings.CutPrefix(a.URL, AnalyticsMemory); ok && rest != "" {
		return "", fmt.Errorf("%s: memory: takes nothing: leave %q out", flag, rest)
	}
	return kindOfURL(flag, "sqlite:weir.db, or memory: or off", a.URL, databaseKinds)
}

// Options returns what the service is made with.
func (a *Analytics) Options(log *slog.Logger) analytics.Options {
	return analytics.Options{Log: log, Bounds: rows.Bounds{
		KeepMinutes: a.KeepMinutes, KeepHours: a.KeepHours, KeepDays: a.KeepDays,
		KeepClientMinutes: a.KeepClientMinutes, KeepClientHours: a.KeepClientHours,
		MaxClients: int(a.MaxClients), MaxBytes: int64(a.MaxBytes),
	}}
}

// checkDatabase reports what is wrong with a that can be seen without opening anything.
func (a *Analytics) checkDatabase() error {
	if a.URL == Off {
		return nil
	}
	_, err := a.DatabaseKind()
	return err
}

// checkAnalytics reports what makes no sense in the section analytics.
func (c *Config) checkAnalytics() error {
	if c.Events.URL == Off && c.Analytics.URL != Off && c.Analytics.URL != AnalyticsMemory {
		return fmt.Errorf("--analytics %s has nothing to keep: leave --events off out", redact.URL(c.Analytics.URL))
	}
	return c.Analytics.checkDatabase()
}
