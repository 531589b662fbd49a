package node

import (
	"io"
	"log/slog"

	"github.com/weirlimit/weir/internal/config"
)

// NewLogger returns the logger that conf asks for. A level that is no level is
// reported by [New]; here it means info.
func NewLogger(w io.Writer, conf config.Log) *slog.Logger {
	var level slog.Level
	if level.UnmarshalText([]byte(conf.Level)) != nil {
		level = slog.LevelInfo
	}
	opt := &slog.HandlerOptions{Level: level}
	if conf.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}
