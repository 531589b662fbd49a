package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/node"
)

// cutFiles splits the words of a command line into the files that come first and the
// entries.
func cutFiles(words []string) (files, entries []string) {
	for i, w := range words {
		if strings.Contains(w, "=") || !looksLikeFile(w) {
			return words[:i], words[i:]
		}
	}
	return words, nil
}

// looksLikeFile reports whether a word names a file: there is one, or it is named like
// rules.
func looksLikeFile(word string) bool {
	_, err := os.Stat(word)
	return err == nil || isYAML(word)
}

// looksLikeRules reports whether a word among the names of files names rules: YAML by
// its name, or a directory.
func looksLikeRules(word string) bool {
	info, err := os.Stat(word)
	return isYAML(word) || err == nil && info.IsDir()
}

func isYAML(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

// loadConfig reads a configuration of weir serve.
func loadConfig(file string) (*config.Config, error) {
	conf := config.Defaults()
	return conf, conf.LoadFile(file)
}

// openTrial opens the gateway of a configuration of weir serve. The caller closes it.
func openTrial(file string) (*node.Trial, error) {
	conf, err := loadConfig(file)
	if err != nil {
		return nil, err
	}
	trial, err := node.OpenTrial(conf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return trial, nil
}
