package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/node"
	"github.com/weirlimit/weir/internal/replay"
	"github.com/weirlimit/weir/internal/replay/accesslog"
	"github.com/weirlimit/weir/internal/replay/cases"
	"github.com/weirlimit/weir/internal/replay/facts"
)

// tryGateway returns the gateway of a configuration to be tried on lines of logs. Fields
// and constants are of the header of each request. The caller calls end.
func tryGateway(file string, fields, constants map[string]string) (_ *replay.Tried, end func() error, err error) {
	read, err := facts.New(fields)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	add := func(flag, name, value string) error {
		names = append(names, name)
		if _, err := cases.ReadRequest("GET /", []string{name + ": " + value}, "127.0.0.1"); err != nil {
			return fmt.Errorf("%s %s: %w", flag, name, err)
		}
		return nil
	}
	for name := range fields {
		if err := add("--field", name, "x"); err != nil {
			return nil, nil, err
		}
	}
	for name, value := range constants {
		if err := add("--set", name, value); err != nil {
			return nil, nil, err
		}
		read.FixValue(name, value)
	}
	trial, err := openTrial(file)
	if err != nil {
		return nil, nil, err
	}
	l := &lines{trial: trial, facts: read, names: names}
	return &replay.Tried{Files: []string{file}, Domain: trial.Domain(), Set: trial.Set(), Ask: l.fillRequest}, trial.Close, nil
}

// lines makes requests to a gateway of lines.
type lines struct {
	trial  *node.Trial
	facts  *facts.Reader
	names  []string
	header []string
}

// fillRequest fills r with what the gateway asks about a line, and reports whether it asks.
func (s *lines) fillRequest(r *weir.Request, l *accesslog.Line) bool {
	s.facts.Read(l)
	s.header = s.header[:0]
	isHost := false
	for _, name := range s.names {
		i, _ := s.facts.Index(name)
		if value := s.facts.Value(i); value != "" {
			s.header = append(s.header, name+": "+value)
			isHost = isHost || strings.EqualFold(name, "host")
		}
	}
	if l.Host != "" && !isHost {
		s.header = append(s.header, "Host: "+l.Host)
	}
	req, err := cases.ReadRequest(l.Method+" "+cmp.Or(l.Target, "/"), s.header, l.Address)
	if err != nil {
		return false // what a server refuses before it asks
	}
	asked, _ := s.trial.Ask(r, req)
	return asked
}
