package main

import (
	"io"
	"testing"
)

// withoutJSON says why a command has no --json.
var withoutJSON = map[string]string{
	"serve":      "it serves; --log-format json is for its log",
	"demo":       "it shows what a person watches",
	"analytics":  "it serves; --log-format json is for its log",
	"ratelimit":  "it serves, by the environment variables of another program",
	"completion": "it prints a script",
	"schema":     "it prints JSON",
}

// Every command that prints answers has --json.
func TestEveryCommandHasJSON(t *testing.T) {
	k, err := newParser(new(cli), streams{nil, io.Discard, io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, n := range k.Model.Children {
		known[n.Name] = true
		has := false
		for _, f := range n.Flags {
			has = has || f.Name == "json"
		}
		switch reason := withoutJSON[n.Name]; {
		case !has && reason == "":
			t.Errorf("weir %s has no --json: add it, or a reason here", n.Name)
		case has && reason != "":
			t.Errorf("weir %s has --json: take it from the list", n.Name)
		}
	}
	for name := range withoutJSON {
		if !known[name] {
			t.Errorf("there is no weir %s", name)
		}
	}
}
