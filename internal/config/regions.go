package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/region"
)

// DefaultStore is what --store is when nobody has set it.
const DefaultStore = "memory:"

// A RegionStore is a line of --regions.
type RegionStore struct{ Name, URL string }

var regionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// ParseRegions reads the lines NAME=URL of --regions.
func ParseRegions(lines []string) ([]RegionStore, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("--regions: "+format, args...)) }
	var out []RegionStore
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
			out = append(out, RegionStore{name, url})
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
	all, err := ParseRegions(c.Regions)
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
		if r.Name == c.Region && c.Store != DefaultStore && c.Store != r.URL {
			return fmt.Errorf("--store and the URL of %s in --regions differ: leave --store out", c.Region)
		}
	}
	switch own := c.StoreOfRegion(); {
	case c.regionCount() == 1:
		return fmt.Errorf("--region %s without other regions: name their stores, such as --regions \"us=redis://redis.us:6379\"; to tell of it in events alone set events.region (WEIR_EVENTS_REGION)", c.Region)
	case own == DefaultStore:
		return fmt.Errorf("--region %s has no store: add %[1]s=URL to --regions, or give --store", c.Region)
	case !strings.HasPrefix(own, "redis"):
		return fmt.Errorf("--store of a region must be Redis or Valkey, which other regions can reach")
	}
	return nil
}

// StoreOfRegion returns the URL of the store that this node shares with others: that
// of its region, if there is one and it is named there.
func (c *Config) StoreOfRegion() string {
	for _, line := range c.Regions {
		if name, url, _ := strings.Cut(line, "="); name == c.Region && c.Region != "" {
			return url
		}
	}
	return c.Store
}

// CostCheck returns the check of costs that rules fix, nil where there are no regions.
func (c *Config) CostCheck() func(*weir.Limit, int64) error {
	regions := c.regionCount()
	if regions < 2 {
		return nil
	}
	return func(l *weir.Limit, cost int64) error { return region.CheckCost(l, regions, cost) }
}

// LimitCheck returns the check of the limits of rules by the store that c names, which
// need not be open.
func (c *Config) LimitCheck() (func(*weir.Limit) error, error) {
	kind, err := FindStoreKind(c)
	if err != nil {
		return nil, err
	}
	regions := c.regionCount()
	return func(l *weir.Limit) error {
		if err := kind.Check(l); err != nil || regions < 2 {
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

// FindStoreKind returns the kind of the store that c names.
func FindStoreKind(c *Config) (StoreKind, error) {
	if at := c.StoreOfRegion(); isHostPort(at) {
		scheme := "redis"
		if strings.HasSuffix(at, ":11211") {
			scheme = "memcached"
		}
		return StoreKind{}, fmt.Errorf("--store: %s is an address, not a URL: write %s://%s", at, scheme, at)
	}
	return kindOfURL("--store", "memory: or redis://127.0.0.1:6379", c.StoreOfRegion(), storeKinds)
}
