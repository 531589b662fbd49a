package main

import (
	"fmt"
	"strconv"

	"github.com/weirlimit/weir/lab/bench/ours"
)

// runWorker is this program as started again by itself: it measures one thing
// in a process of its own and tells the parent.
func runWorker(name string, args []string) error {
	// Every kind of worker takes at most one number, as its last argument.
	number := 0
	if len(args) > 0 {
		n, err := strconv.Atoi(args[len(args)-1])
		if err != nil {
			return fmt.Errorf("worker %s: last argument: %w", name, err)
		}
		number = n
	}
	switch {
	case name == "decisions" && len(args) == 2:
		return serveDecisions(args[0], number)
	case name == "rules" && len(args) == 3:
		i, err := strconv.Atoi(args[0])
		if err != nil || i < 0 || i >= len(ours.Cases) {
			return fmt.Errorf("worker rules: no case %q", args[0])
		}
		return serveRules(ours.Cases[i], args[1], number)
	case name == "observer" && len(args) == 2:
		if number < 0 || number >= len(ours.ObservedCases) {
			return fmt.Errorf("worker observer: no case %d", number)
		}
		return serveObserver(args[0], ours.ObservedCases[number])
	case name == "http" && len(args) == 1:
		return serveHTTP(number)
	case name == "upstream" && len(args) == 0:
		return serveUpstream()
	case name == "proxy" && len(args) == 1:
		return serveProxy(number)
	case name == "open" && len(args) == 0:
		return serveOpen()
	case name == "middleware" && len(args) == 1:
		return serveInbound(number)
	case name == "redis" && len(args) == 4:
		return serveRedis(args[0], args[1], args[2], number)
	case name == "resp" && len(args) == 1:
		return serveRESP(number)
	case name == "grpc" && len(args) == 1:
		return serveRPC(number)
	case name == "hold" && len(args) == 2:
		return serveHold(args[0], number)
	case name == "shrink" && len(args) == 0:
		return serveShrink()
	}
	return fmt.Errorf("no worker %q with arguments %q", name, args)
}
