package redis

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// examineFirst looks at the first server of a cluster that answers by itself: a
// client of a cluster says little of a server that is none.
func (a *address) examineFirst(ctx context.Context) error {
	var last error
	for _, host := range a.hosts {
		o := a.clientOption([]string{host})
		o.ForceSingleClient, o.ClusterOption = true, rueidis.ClusterOption{}
		client, err := rueidis.NewClient(o)
		if err != nil {
			last = err
			continue
		}
		err = a.examine(ctx, client)
		client.Close()
		return err
	}
	return last
}

// examine checks that a server can keep limits. What can be lived with is logged.
func (a *address) examine(ctx context.Context, client rueidis.Client) error {
	info, err := client.Do(ctx, client.B().Info().Build()).ToString()
	if err != nil {
		return err
	}
	facts := readInfo(info)
	version := facts["redis_version"]
	name := "Redis " + version
	if v := facts["valkey_version"]; v != "" {
		name = "Valkey " + v
	}
	a.version.Store(&name)
	if facts["valkey_version"] == "" && isVersionBefore(version, 6, 2) {
		return fmt.Errorf("the server is Redis %s: Redis 6.2 or later, or Valkey, is needed", version)
	}
	if facts["redis_mode"] == "sentinel" {
		return fmt.Errorf("the server is a Sentinel: write redis+sentinel://host/NAME, with the name of the primary that it watches, for %s", schemeOf(a.text))
	}
	if on := facts["cluster_enabled"] == "1"; on != (a.kind == clustered) {
		if on {
			return fmt.Errorf("the server is part of a cluster: write redis+cluster:// for %s", schemeOf(a.text))
		}
		return fmt.Errorf("the server is not part of a cluster: write redis:// for %s", schemeOf(a.text))
	}
	if facts["role"] == "slave" && a.kind != clustered {
		return fmt.Errorf("the server is a replica of %s:%s: name that one", facts["master_host"], facts["master_port"])
	}
	switch policy := facts["maxmemory_policy"]; {
	case facts["maxmemory"] == "0":
	case strings.HasPrefix(policy, "allkeys-"):
		a.logOnce(slog.LevelWarn, "server evicts keys when its memory is full, and their limits count from zero; set maxmemory-policy to noeviction or volatile-ttl",
			"store", a.text, "maxmemory_policy", policy)
	case strings.HasPrefix(policy, "volatile-") && policy != "volatile-ttl":
		a.logOnce(slog.LevelInfo, "server evicts expiring keys, such as those of limits, when its memory is full; maxmemory-policy volatile-ttl evicts the least important first",
			"store", a.text, "maxmemory_policy", policy)
	}
	return nil
}

// logOnce logs what can be lived with, once: servers are examined as often as they are reached.
func (a *address) logOnce(level slog.Level, what string, args ...any) {
	if _, was := a.logged.LoadOrStore(what, true); !was {
		a.Logger.Log(context.Background(), level, what, args...)
	}
}

// probe is a script with what every other script does: it tells whether the user
// may run scripts, read keys of the store, and ask the time.
const probe = "redis.call('GET', KEYS[1]) local t = redis.call('TIME') return t[1] * 1000000 + t[2]"

// maxDrift is how far a server's clock may be off this one's before it is worth a
// word.
const maxDrift = time.Second

// compareClocks runs the probe. Decisions go by the server's clock alone; only
// calendar windows and what people are told compare it with this one's.
func (a *address) compareClocks(ctx context.Context, client rueidis.Client) error {
	before := time.Now()
	us, err := client.Do(ctx, client.B().Eval().Script(probe).Numkeys(1).Key(a.Prefix+":{%}:probe").Build()).AsInt64()
	if err != nil {
		return err
	}
	here := before.Add(time.Since(before) / 2)
	if drift := time.UnixMicro(us).Sub(here); drift.Abs() > maxDrift {
		a.logOnce(slog.LevelWarn, "clocks of the server and of this machine differ; synchronize both with NTP",
			"store", a.text, "difference", drift.Round(time.Millisecond))
	}
	return nil
}

// readInfo reads the answer to INFO.
func readInfo(text string) map[string]string {
	facts := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[name] = value
		}
	}
	return facts
}

// isVersionBefore reports whether version is before major.minor. One that cannot be read is
// not.
func isVersionBefore(version string, major, minor int) bool {
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return false
	}
	x, errX := strconv.Atoi(parts[0])
	y, errY := strconv.Atoi(parts[1])
	return errX == nil && errY == nil && (x < major || x == major && y < minor)
}

func schemeOf(text string) string {
	scheme, _, _ := strings.Cut(text, "://")
	return scheme + "://"
}

// connectServers connects to a server, or to all, and checks it. Those of a cluster are
// examined before.
func (a *address) connectServers(ctx context.Context, hosts []string) (rueidis.Client, error) {
	client, err := rueidis.NewClient(a.clientOption(hosts))
	if err != nil {
		return nil, err
	}
	if a.kind != clustered {
		err = a.examine(ctx, client)
	}
	if err == nil {
		err = a.compareClocks(ctx, client)
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}
