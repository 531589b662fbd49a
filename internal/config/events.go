package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Events configures what is told of decisions, and to whom.
type Events struct {
	URL        string `yaml:"url" name:"events" default:"local:" placeholder:"URL" help:"Queue that events of decisions go to. kafka://HOST:PORT/TOPIC or amqp://HOST:PORT/VHOST?queue=QUEUE (kafkas, amqps for TLS), see docs/reference/events.md. local: keeps them in this process, for its live stream; off makes none. No decision waits for a queue; one that is down is retried."`
	Sample     int64  `yaml:"sample" name:"events-sample" more:"" default:"1000" placeholder:"N" least:"0" help:"Allowed decisions are recorded of one key in N. Refused ones are recorded of all keys. 1 records every key, 0 none."`
	Unhashed   bool   `yaml:"unhashed" name:"events-unhashed" more:"" was:"events-plain" default:"false" help:"Record keys and addresses unhashed. Without it they are keyed hashes."`
	SecretFile string `yaml:"secret_file" name:"events-secret-file" kong:"-" placeholder:"FILE" help:"File whose content keys the hashes of keys. At least 16 bytes; the same on all nodes, so that a client has one hash on all of them. Empty means a random secret, which a restart changes."`
	Node       string `yaml:"node" name:"events-node" kong:"-" placeholder:"NAME" help:"Name of this node in events and in its live stream. Empty means the name of the machine."`
	Region     string `yaml:"region" name:"events-region" kong:"-" placeholder:"NAME" help:"Region of this node in events. Analytics and the dashboard group nodes by it; nothing is decided by it. Empty means that of --region, or none."`
	Backlog    int64  `yaml:"backlog" kong:"-" was:"events-backlog" default:"200000" placeholder:"N" least:"1000" most:"10000000" help:"Most events that wait for the queue; then records are dropped, the oldest first, and counted. One takes about 1 KiB."`
}

const (
	Off         = "off"
	eventsLocal = "local"
	// maxNode bounds the name of a node, in bytes.
	maxNode = 200
)

// FindQueueKind returns the kind of the queue that a URL names.
func FindQueueKind(flag, url string) (string, error) {
	return kindOfURL(flag, "amqp://127.0.0.1:5672, or local: or off", url, queueKinds, eventsLocal)
}

// IsLocal reports whether events stay in this process.
func (e *Events) IsLocal() bool { return e.URL == eventsLocal+":" }

// checkSettings reports what is wrong with e that can be seen without opening anything.
func (e *Events) checkSettings() error {
	var errs []error
	if e.URL != Off && !e.IsLocal() {
		if scheme, rest, _ := strings.Cut(e.URL, ":"); scheme == eventsLocal {
			errs = append(errs, fmt.Errorf("--events (events.url): %s: takes nothing: leave %q out", eventsLocal, rest))
		} else if _, err := FindQueueKind("--events (events.url)", e.URL); err != nil {
			errs = append(errs, err)
		}
	}
	if len(e.Node) > maxNode || strings.ContainsFunc(e.Node, isNoNode) {
		errs = append(errs, fmt.Errorf("events.node %q: at most %d letters, digits and signs other than spaces and slashes", e.Node, maxNode))
	}
	if e.Region != "" && !regionName.MatchString(e.Region) {
		errs = append(errs, fmt.Errorf("events.region %q is not a name of letters, digits, dots and dashes", e.Region))
	}
	return errors.Join(errs...)
}

// EventRegion returns the region of this node in events.
func EventRegion(c *Config) string { return cmp.Or(c.Events.Region, c.Region) }

// NodeName returns the name of this node.
func (e *Events) NodeName() string {
	name := strings.Map(func(r rune) rune {
		if isNoNode(r) {
			return '-'
		}
		return r
	}, cmp.Or(e.Node, MachineName(), "node"))
	return name[:min(len(name), maxNode)]
}

// isNoNode reports whether the name of a node cannot have r.
func isNoNode(r rune) bool { return r <= ' ' || r > '~' || r == '/' }

// MachineName is the name of the machine, empty where it has none.
func MachineName() string {
	name, _ := os.Hostname() // empty with an error
	return name
}

// ReadSecret returns what hashes of keys are keyed with, nothing for a random one.
func (e *Events) ReadSecret() ([]byte, error) {
	secret, err := ReadSecret("events.secret_file", e.SecretFile)
	if e.SecretFile != "" && err == nil && len(secret) < minSecret {
		return nil, fmt.Errorf("events.secret_file: %s has %d bytes: give at least 16, such as by `openssl rand -hex 32`", e.SecretFile, len(secret))
	}
	return secret, err
}

// KeepsEvents reports whether this process keeps what events tell. In memory it keeps its
// own alone, and only where somebody can ask.
func (c *Config) KeepsEvents() bool {
	if c.Analytics.URL == Off || c.Events.URL == Off {
		return false
	}
	return c.Analytics.URL != AnalyticsMemory || c.Events.IsLocal() && c.Admin.Listen != ""
}
