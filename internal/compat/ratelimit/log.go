package ratelimit

import (
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
)

// NewLogger returns the log that LOG_LEVEL and LOG_FORMAT ask for. The names of
// levels are those that Envoy's service writes; json has @timestamp and
// @message.
func NewLogger(w io.Writer, s *settings.Settings) *slog.Logger {
	level, _ := settings.ParseLevel(s.LogLevel) // info for what is no level, which Check refuses
	json := strings.EqualFold(s.LogFormat, "json")
	opt := &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) > 0 {
			return a
		}
		switch a.Key {
		case slog.LevelKey:
			if l, ok := a.Value.Any().(slog.Level); ok {
				return slog.String(a.Key, levelName(l))
			}
		case slog.TimeKey:
			if json {
				return slog.String("@timestamp", a.Value.Time().Format(time.RFC3339Nano))
			}
			return slog.String(a.Key, a.Value.Time().Format(time.RFC3339))
		case slog.MessageKey:
			if json {
				a.Key = "@message"
			}
		}
		return a
	}}
	if json {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}

func levelName(l slog.Level) string {
	if l == slog.LevelWarn {
		return "warning"
	}
	return strings.ToLower(l.String())
}
