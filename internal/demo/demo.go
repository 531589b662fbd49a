package demo

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/node"
)

// Options configures a demo.
type Options struct {
	// Port is that of the gateway and Admin that of the dashboard, or HOST:PORT, on loopback.
	// Empty takes a free one.
	Port, Admin string
	// For is how long it lasts once all is there. Zero means until ctx ends.
	For time.Duration
	// Seed makes the clients' choices: the same ones for the same seed.
	Seed uint64
	// Build is the binary that runs.
	Build node.Build
	// Out is told where to look, Log what goes wrong. Required.
	Out io.Writer
	Log *slog.Logger
}

var (
	//go:embed weir.yaml
	configText []byte
	//go:embed rules.yaml
	rulesText []byte
)

// Run runs a node, its upstream and its clients until ctx ends, and removes its files. An
// error says what did not start or failed.
func Run(ctx context.Context, opt Options) (err error) {
	folder, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	up, err := openShop()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.close()) }()
	conf, err := configure(&opt, folder, up.url)
	if err != nil {
		return err
	}
	demoNode, err := node.New(conf, opt.Build, opt.Log)
	if err != nil {
		return err
	}
	acting, stopActing := context.WithCancel(ctx)
	defer stopActing()
	serving, stopServing := context.WithCancel(context.Background())
	defer stopServing()
	ready := make(chan node.Ready, 1)
	var clients sync.WaitGroup
	var failed error
	clients.Go(func() {
		// The clients end first, so that none finds nobody there.
		defer stopServing()
		select {
		case r := <-ready:
			failed = perform(acting, &opt, conf, node.EventQueue(demoNode), r)
		case <-acting.Done():
		}
	})
	err = demoNode.Run(serving, func(r node.Ready) { ready <- r })
	stopActing()
	clients.Wait()
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w (of the demo: with --port or --admin; without them it takes free ones)", err)
	}
	return errors.Join(err, failed)
}

// configure writes the files of the demo into a folder and returns the configuration.
func configure(opt *Options, folder, upstream string) (*config.Config, error) {
	file, limits := filepath.Join(folder, "weir.yaml"), filepath.Join(folder, "rules.yaml")
	for path, text := range map[string][]byte{file: configText, limits: rulesText} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return nil, err
		}
	}
	conf := config.Defaults()
	if err := conf.LoadFile(file); err != nil {
		return nil, err
	}
	var err error
	if conf.HTTP.Listen, err = onLoopback("--port", opt.Port); err != nil {
		return nil, err
	}
	if conf.Admin.Listen, err = onLoopback("--admin", opt.Admin); err != nil {
		return nil, err
	}
	conf.Rules, conf.Upstream = limits, upstream
	return conf, nil
}

// onLoopback returns the address that a flag gives as a port or as HOST:PORT.
func onLoopback(flag, text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = "127.0.0.1", cmp.Or(text, "0")
	}
	ip := net.ParseIP(host)
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fmt.Errorf("%s %q is no port of this machine alone, which is all that the demo listens on: give a number, such as 8080", flag, text)
	}
	return net.JoinHostPort(host, port), nil
}

// perform plays the last hour, says where to look, and goes on until ctx ends or the demo
// is over.
func perform(ctx context.Context, opt *Options, conf *config.Config, queue event.Queue, r node.Ready) error {
	start := time.Now()
	clients := newCrowd(start, opt.Seed)
	_, err := fmt.Fprintln(opt.Out, "Playing an hour of made-up clients; this takes some seconds.")
	if err == nil {
		err = clients.remember(ctx, conf, queue, r.URLs["http"])
	}
	if err == nil {
		_, err = fmt.Fprint(opt.Out, guide{r.URLs["admin"], r.URLs["http"], r.Upstream, conf.Rules})
	}
	if opt.For > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, opt.For)
		defer end()
	}
	if err == nil {
		err = clients.playOverNetwork(ctx, r.URLs["http"], time.Since(start))
	}
	if ctx.Err() != nil {
		return nil // what was under way then was cut
	}
	return err
}

// remember plays the hour before the start and hands its events to the node's analytics.
func (c *crowd) remember(ctx context.Context, conf *config.Config, queue event.Queue, url string) error {
	handed := &batches{queue: queue}
	earlier, err := newPast(c.start.Add(-history), conf.Rules, event.Options{
		Queue: handed, Node: conf.Events.Node, Unhashed: conf.Events.Unhashed, Sample: conf.Events.Sample, RollupEvery: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	err = earlier.playClients(ctx, c.clients, url, c.start)
	return errors.Join(err, handed.publishWaiting(ctx), earlier.close())
}
