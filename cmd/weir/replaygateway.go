package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/replay"
	"github.com/weirlimit/weir/internal/replay/accesslog"
	"github.com/weirlimit/weir/internal/replay/cases"
	"github.com/weirlimit/weir/internal/replay/facts"
	"github.com/weirlimit/weir/internal/server"
	"github.com/weirlimit/weir/rules"
)

// openGateway opens the gateway of a configuration for lines of logs. Fields and
// constants are of the header of each request. The caller calls end.
func openGateway(file string, fields, constants map[string]string) (_ *rules.Set, gateway *replay.Gateway, end func() error, err error) {
	conf := server.Defaults()
	if err := conf.Load(file); err != nil {
		return nil, nil, nil, err
	}
	read, err := facts.New(fields)
	if err != nil {
		return nil, nil, nil, err
	}
	var names []string
	add := func(name, value string) error {
		names = append(names, name)
		_, err := cases.ReadRequest("GET /", []string{name + ": " + value}, "127.0.0.1")
		return err
	}
	for name := range fields {
		if err := add(name, "x"); err != nil {
			return nil, nil, nil, fmt.Errorf("--field %s: %w", name, err)
		}
	}
	for name, value := range constants {
		if err := add(name, value); err != nil {
			return nil, nil, nil, fmt.Errorf("--set %s: %w", name, err)
		}
		read.Fix(name, value)
	}
	trial, err := server.OpenTrial(conf)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	l := &lines{trial: trial, facts: read, names: names}
	return nil, &replay.Gateway{File: file, Domain: trial.Domain(), Rules: trial.Rules(), Limits: trial.Limits(), Ask: l.ask}, trial.Close, nil
}

// lines makes requests to a gateway of lines.
type lines struct {
	trial  *server.Trial
	facts  *facts.Reader
	names  []string
	header []string
}

// ask fills r with what the gateway asks about a line, and reports whether it asks.
func (s *lines) ask(r *weir.Request, l *accesslog.Line) bool {
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
