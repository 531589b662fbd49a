package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"

	"github.com/weirlimit/weir/replay"
	"github.com/weirlimit/weir/replay/accesslog"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/server"
)

type replayCmd struct {
	Logs    []string          `arg:"" optional:"" name:"log" placeholder:"LOG" help:"Access logs, the oldest first; gzip and zstd are read as they are. None or - means standard input."`
	Rules   []string          `name:"rules" env:"-" sep:"none" required:"" placeholder:"FILE|DIR" help:"Rules to try; can be given several times."`
	Against []string          `name:"against" env:"-" sep:"none" placeholder:"FILE|DIR" help:"Rules to compare them with; can be given several times."`
	Domain  string            `name:"domain" env:"-" placeholder:"NAME" help:"Domain of the requests. None means the only one of the rules."`
	Format  string            `name:"format" env:"-" placeholder:"NAME" help:"Format of the logs. None means that their first lines tell: ${log_formats}."`
	Field   map[string]string `name:"field" env:"-" mapsep:"none" placeholder:"KEY=PATH" help:"Take the value of an entry from a member of JSON lines: tenant=request.headers.X-Tenant; can be given several times."`
	Memory  server.Bytes      `name:"memory" env:"-" placeholder:"SIZE" help:"Most memory for the state of each set of rules."`
	JSON    bool              `name:"json" help:"Print as JSON."`
	HTML    string            `name:"html" env:"-" placeholder:"FILE" help:"Write a page for a browser too."`
}

// Help is the long text of `weir replay --help`.
func (*replayCmd) Help() string {
	return `Examples:

  weir replay --rules rules.yaml access.log
  weir replay --rules new.yaml --against rules.yaml --html report.html access.log.2.gz access.log.1 access.log
  journalctl -u caddy -o cat | weir replay --rules rules.yaml --field tenant=request.headers.X-Tenant

Decides every request of the logs as a node with these rules would have, on the
logs' own clock, and says who would have been refused by which limit. For each
list of keys that rules match, a request has one descriptor; its entries are
remote_address, method, path, user, host, user_agent and those of --field.
Exit status: 0 the logs were read, 2 they or the rules were not.`
}

// Run replays the logs.
func (c *replayCmd) Run(s streams) (err error) {
	opt := replay.Options{Domain: c.Domain, Fields: c.Field, MaxBytes: int64(c.Memory)}
	if opt.Rules, err = rules.Load(c.Rules, rules.Options{}); err != nil {
		return err
	}
	if len(c.Against) > 0 {
		if opt.Against, err = rules.Load(c.Against, rules.Options{}); err != nil {
			return err
		}
	}
	r, err := replay.New(opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	logs := c.Logs
	if len(logs) == 0 {
		logs = []string{"-"}
	}
	for _, name := range logs {
		if err := c.read(r, name, s); err != nil {
			return err
		}
	}
	return c.tell(r.Report(), s)
}

// read replays one log.
func (c *replayCmd) read(r *replay.Replay, name string, s streams) error {
	in, size := s.in, int64(-1)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		in = f
	} else {
		name = "standard input"
	}
	if isTerminal(s.err) {
		bar := progressbar.NewOptions64(size, progressbar.OptionSetWriter(s.err), progressbar.OptionSetDescription(name),
			progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
		defer bar.Close()
		in = io.TeeReader(in, bar)
	}
	var format accesslog.Format
	if c.Format != "" {
		var err error
		if format, err = accesslog.Open(c.Format); err != nil {
			return fmt.Errorf("--format: %w", err)
		}
	}
	log, err := accesslog.NewReader(in, name, format)
	if err != nil {
		return err
	}
	defer log.Close()
	return r.Read(log)
}

func (c *replayCmd) tell(report *replay.Report, s streams) error {
	if c.HTML != "" {
		if err := writePage(c.HTML, report); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if c.JSON {
		enc := json.NewEncoder(s.out)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	return report.WriteText(s.out)
}

func writePage(name string, report *replay.Report) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(report.WriteHTML(f), f.Close())
}

// isTerminal reports whether somebody watches what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}
