package identity

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Route is a set of requests and what is asked about them.
type Route struct {
	// Name of the route, the value of the source "route". Zero means Host and
	// Path.
	Name string `yaml:"name"`
	// Host of the requests: "example.com", or "*.example.com" for all names below
	// it. Zero means any.
	Host string `yaml:"host"`
	// Path of the requests, compared in canonical form: "/login", with {name} for
	// any one segment, with /* at its end for that path and all below it. Zero
	// means any.
	Path string `yaml:"path"`
	// Allow lists what their paths may hold, beside PathOptions.Allow, though servers
	// read it in more than one way. The upstream must read it as it is counted:
	//
	//	backslash       \ and %5C are a character of a segment
	//	parameters      a segment ends before its first semicolon
	//	encoded_slash   %2F is a character of a segment
	//	empty_segments  several slashes are one
	//
	// Zero means that such a request is answered 400.
	Allow []string `yaml:"allow"`
	// Methods of the requests; GET is HEAD too. Zero means any.
	Methods []string `yaml:"methods"`
	// Descriptors to make of each request. Zero means one, of the client's
	// address.
	Descriptors []Descriptor `yaml:"descriptors"`
	// Cost of a request in units. Zero means 1.
	Cost int64 `yaml:"cost"`
	// Unlimited: no limit is asked, see [Routes.PlanFor].
	Unlimited bool `yaml:"unlimited"`
	// Priority of a request, 0 the highest.
	Priority int `yaml:"priority"`
}

func (rt *Route) nameOrPath() string { return cmp.Or(rt.Name, rt.Host+rt.Path, "/*") }

// paramSegment returns the segment of the path that is {name}, -1 if there is none.
func (rt *Route) paramSegment(name string) int {
	n := 0
	for s := range strings.SplitSeq(rt.Path, "/") {
		if s == "{"+name+"}" {
			return n
		}
		if s != "" {
			n++
		}
	}
	return -1
}

// splitPattern splits the path of a route: its segments, "" for a param, and
// whether all below it match too.
func splitPattern(path string, opt PathOptions) (segments []string, under bool, err error) {
	if path == "" {
		return nil, true, nil
	}
	if path[0] != '/' {
		return nil, false, fmt.Errorf("path %q does not begin with a slash", path)
	}
	rest, under := strings.CutSuffix(path, "/*")
	seen := map[string]bool{}
	for _, s := range strings.Split(rest, "/") {
		if name, ok := strings.CutPrefix(s, "{"); ok {
			name, ok = strings.CutSuffix(name, "}")
			if !ok || !isToken(name) {
				return nil, false, fmt.Errorf("path %q: write a segment that varies as {name}, nothing beside it", path)
			}
			if seen[name] {
				return nil, false, fmt.Errorf("path %q has two segments {%s}", path, name)
			}
			seen[name] = true
			segments = append(segments, "")
			continue
		}
		if strings.ContainsAny(s, "{}*") {
			return nil, false, fmt.Errorf("path %q: {name} and * stand for whole segments, and * only at the end", path)
		}
		if strings.ContainsAny(s, ";?#\\") {
			return nil, false, fmt.Errorf("path %q: parameters, a query and backslashes are no part of a canonical path", path)
		}
		canon, err := Canonical("/"+s, opt)
		if err != nil {
			return nil, false, fmt.Errorf("path %q: %w", path, err)
		}
		if canon == "/" {
			continue // the slash at either end, and doubled ones
		}
		segments = append(segments, canon[1:])
	}
	if len(segments) > maxSegments {
		return nil, false, errors.New("path is deeper than 64 segments")
	}
	return segments, under, nil
}
