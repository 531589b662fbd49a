package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The command line that every file of deploy/ tells beside it parses.
func TestCommandLinesInDeploy(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../../deploy", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// Comments of one command go over several lines.
		text := strings.NewReplacer("\\\n#", "", "\\\n--", "").Replace(string(data))
		for _, m := range invocation.FindAllStringSubmatch(text, -1) {
			args := splitWords(m[1])
			found++
			var c cli
			parser, err := newParser(&c, streams{out: new(bytes.Buffer), err: new(bytes.Buffer)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.Parse(flagsFirst(parser, args)); err != nil {
				t.Errorf("%s: weir %s: %v", path, m[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 6 {
		t.Errorf("only %d command lines were found", found)
	}
}
