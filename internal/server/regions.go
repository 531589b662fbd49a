package server

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/region"
)

// defaultStore is what --store is when nobody has set it.
const defaultStore = "memory:"

// peerTimeout is how long another region's store is waited for if its URL does not
// say.
const peerTimeout = time.Second

// A regionURL is a line of --regions.
type regionURL struct{ name, url string }

var regionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// parseRegions reads the lines NAME=URL of --regions.
func parseRegions(lines []string) ([]regionURL, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("--regions: "+format, args...)) }
	var out []regionURL
	seen := map[string]bool{}
	for _, line := range lines {
		name, url, ok := strings.Cut(line, "=")
		switch scheme, _, _ := strings.Cut(url, ":"); {
		case !ok || !regionName.MatchString(name):
			// What was written may hold a password.
			bad("%q is not NAME=URL such as eu=redis://redis.eu:6379, NAME of letters, digits, dots and dashes", strings.TrimRight(name, "=")[:min(len(name), 64)])
		case seen[name]:
			bad("%s is named twice", name)
		case scheme != "redis" && scheme != "rediss" && !strings.HasPrefix(scheme, "redis+") && !strings.HasPrefix(scheme, "rediss+"):
			bad("%s: regions tell each other what they admitted through Redis or Valkey, not %q: give a URL such as redis://redis.%s:6379", name, scheme, name)
		default:
			out = append(out, regionURL{name, url})
		}
		seen[name] = true
	}
	if len(lines) > region.MaxRegions {
		bad("%d are too many: at most %d", len(lines), region.MaxRegions)
	}
	return out, errors.Join(errs...)
}

// checkRegions reports what is wrong with the regions, before anything is opened.
func (c *Config) checkRegions() error {
	if c.Region == "" && len(c.Regions) == 0 {
		return nil
	}
	all, err := parseRegions(c.Regions)
	if err != nil {
		return err
	}
	switch {
	case c.Region == "":
		return errors.New("--regions without --region: say which of them this node is in")
	case !regionName.MatchString(c.Region):
		return fmt.Errorf("--region %q is not a name of letters, digits, dots and dashes", c.Region)
	}
	for _, r := range all {
		if r.name == c.Region && c.Store != defaultStore && c.Store != r.url {
			return fmt.Errorf("--store and the URL of %s in --regions differ: leave --store out", c.Region)
		}
	}
	switch own := c.storeOfRegion(); {
	case c.regionCount() == 1:
		return fmt.Errorf("--region %s without other regions: name their stores, such as --regions \"us=redis://redis.us:6379\"; to tell of it in events alone set events.region (WEIR_EVENTS_REGION)", c.Region)
	case own == defaultStore:
		return fmt.Errorf("--region %s has no store: add %[1]s=URL to --regions, or give --store", c.Region)
	case !strings.HasPrefix(own, "redis"):
		return fmt.Errorf("--store of a region must be Redis or Valkey, which other regions can reach")
	}
	return nil
}

// storeOfRegion returns the URL of the store that this node shares with others: that
// of its region, if there is one and it is named there.
func (c *Config) storeOfRegion() string {
	for _, line := range c.Regions {
		if name, url, _ := strings.Cut(line, "="); name == c.Region && c.Region != "" {
			return url
		}
	}
	return c.Store
}

// openPeers opens the stores of the other regions. One that cannot be reached is
// tried until it can.
func openPeers(conf *Config, log *slog.Logger) (peers []region.Peer, longest time.Duration, err error) {
	all, err := parseRegions(conf.Regions)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range all {
		if r.name == conf.Region {
			continue
		}
		store, err := openDriven("--regions: "+r.name, r.url, true, redis.Options{Logger: log, Timeout: peerTimeout})
		if err != nil {
			return nil, 0, errors.Join(err, closePeers(peers))
		}
		longest = max(longest, timeoutOf(r.url))
		peers = append(peers, region.Peer{Name: r.name, Store: store})
	}
	if longest == 0 {
		longest = peerTimeout
	}
	return peers, longest, nil
}

func closePeers(peers []region.Peer) error {
	var errs []error
	for _, p := range peers {
		errs = append(errs, p.Store.Close())
	}
	return errors.Join(errs...)
}

// checkCost returns the check of costs that rules fix, nil where there are no regions.
func (c *Config) checkCost() func(*weir.Limit, int64) error {
	regions := c.regionCount()
	if regions < 2 {
		return nil
	}
	return func(l *weir.Limit, cost int64) error { return region.CheckCost(l, regions, cost) }
}

// checkLimit returns the check of the limits of rules by the store that c names, which
// need not be open.
func (c *Config) checkLimit() (func(*weir.Limit) error, error) {
	kind, err := kindOfStore(c)
	if err != nil {
		return nil, err
	}
	regions := c.regionCount()
	return func(l *weir.Limit) error {
		if err := kind.check(l); err != nil || regions < 2 {
			return err
		}
		return region.Check(l, regions)
	}, nil
}

// regionCount returns how many regions there are: this node's, whose store --store may
// name, and the others.
func (c *Config) regionCount() int {
	n := 1
	for _, line := range c.Regions {
		if name, _, _ := strings.Cut(line, "="); name != c.Region {
			n++
		}
	}
	return n
}

// kindOfStore returns the kind of the store that c names.
func kindOfStore(c *Config) (storeKind, error) {
	if at := c.storeOfRegion(); isHostPort(at) {
		scheme := "redis"
		if strings.HasSuffix(at, ":11211") {
			scheme = "memcached"
		}
		return storeKind{}, fmt.Errorf("--store: %s is an address, not a URL: write %s://%s", at, scheme, at)
	}
	return kindOf("--store", "memory: or redis://127.0.0.1:6379", c.storeOfRegion(), stores)
}
