package check

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/rules"
)

// NeverPath says why no request has the path of a route, and what to write; "" if one
// may. A path of a route is text, {name} for a segment, and /* at the end: what other
// routers have is text here.
func NeverPath(path string) (why, cure string) {
	for _, segment := range strings.Split(path, "/") {
		inner := strings.TrimSuffix(strings.TrimPrefix(segment, "<"), ">")
		switch {
		case len(segment) > 1 && segment[0] == ':':
			return "it looks like the parameter of another router", "write {" + segment[1:] + "} for any one segment"
		case len(inner) == len(segment)-2 && inner != "":
			name := inner[strings.LastIndexByte(inner, ':')+1:]
			return "it looks like the parameter of another router", "write {" + name + "} for any one segment"
		}
	}
	if strings.HasSuffix(path, "$") || strings.Contains(path, "(?") || strings.Contains(path, "(") && strings.Contains(path, "|") ||
		strings.Contains(path, "[") && strings.Contains(path, "]") || strings.Contains(path, ".+") || strings.Contains(path, ".*") {
		return "it looks like a regular expression", "write {name} for any one segment, and /* at the end for all that is below"
	}
	return "", ""
}

// findNever returns warnings of the routes that no request takes.
func findNever(path string, routes []config.Route) (out rules.Errors) {
	for i := range routes {
		if why, cure := NeverPath(routes[i].Path); why != "" {
			out = append(out, &rules.Error{File: path, Path: fmt.Sprintf("routes[%d]", i), Warning: true, Hint: cure,
				Msg: fmt.Sprintf("the path %q never matches: %s", routes[i].Path, why)})
		}
	}
	return out
}
