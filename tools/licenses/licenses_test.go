package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// The page and the texts are of what is linked now.
func TestPageIsOfTheBinary(t *testing.T) {
	parts, err := readParts(root)
	if err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if string(was) != string(formatList(parts)) {
		t.Errorf("%s is not of what is linked: run go -C tools run ./licenses", page)
	}
	texts := string(formatTexts(parts))
	for _, p := range parts {
		for _, n := range p.notices {
			if !strings.Contains(texts, "\n"+p.name+" "+n.file+"\n") || strings.Count(texts, "\n"+n.text+"\n") == 0 {
				t.Errorf("the text of %s %s is missing", p.name, n.file)
			}
		}
	}
}

// What may not be shipped, or is not known, is an error that names it.
func TestNoticesThatAreRefused(t *testing.T) {
	const gpl = "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License " +
		"as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version."
	for name, c := range map[string]struct{ text, want string }{
		"copyleft":  {gpl, "which is not among"},
		"too large": {strings.Repeat("a", maxNotice+1), "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := addFolder(map[string]*part{}, map[string]bool{}, "a", dir, "")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
