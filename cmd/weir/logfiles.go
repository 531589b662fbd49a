package main

import (
	"fmt"
	"io"
	"os"

	"github.com/weirlimit/weir/internal/terminal"

	"github.com/schollz/progressbar/v3"

	"github.com/weirlimit/weir/internal/replay/accesslog"
)

// logFiles are the flags of subcommands that read access logs.
type logFiles struct {
	Logs   []string          `arg:"" optional:"" name:"log" placeholder:"LOG" help:"Access logs, the oldest first; gzip and zstd are read as they are. None or - means standard input."`
	Format string            `name:"format" env:"-" placeholder:"NAME" help:"Format of the logs. None means that their first lines tell: ${log_formats}."`
	Field  map[string]string `name:"field" env:"-" mapsep:"none" placeholder:"KEY=PATH" help:"Take the value of an entry from a member of JSON lines: tenant=request.headers.X-Tenant; can be given several times."`
}

// eachLog calls read for every log.
func (c *logFiles) eachLog(s streams, read func(*accesslog.Reader) error) error {
	logs := c.Logs
	if len(logs) == 0 {
		logs = []string{"-"}
	}
	for _, name := range logs {
		if err := c.readLog(name, s, read); err != nil {
			return err
		}
	}
	return nil
}

func (c *logFiles) readLog(name string, s streams, read func(*accesslog.Reader) error) error {
	in, size := s.in, int64(-1)
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		in = f
	}
	if terminal.IsTerminal(s.err) {
		bar := progressbar.NewOptions64(size, progressbar.OptionSetWriter(terminal.Unwrap(s.err)), progressbar.OptionSetDescription(name),
			progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
		defer bar.Close()
		in = io.TeeReader(in, bar)
	}
	var format accesslog.Format
	if c.Format != "" {
		var err error
		if format, err = accesslog.OpenFormat(c.Format); err != nil {
			return fmt.Errorf("--format: %w", err)
		}
	}
	log, err := accesslog.NewReader(in, name, format)
	if err != nil {
		return err
	}
	defer log.Close()
	return read(log)
}
