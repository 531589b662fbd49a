package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirlimit/weir/internal/compat/envoy"
	"github.com/weirlimit/weir/internal/regular"
)

// checkEnvoy says whether Envoy's rate limit service would load the files of a
// directory, as its config_check_cmd does, except that only .yaml and .yml count,
// and that a file that cannot be read at all is told in a sentence.
func checkEnvoy(s streams, dir string, merge bool) error {
	fmt.Fprintf(s.out, "checking rate limit configs...\nloading config directory: %s\n", dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		fmt.Fprintf(s.out, "error opening directory %s: %s\n", dir, err)
		return errNo
	}
	var files []envoy.File
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".yaml" && ext != ".yml" {
			continue
		}
		path := filepath.Join(dir, e.Name())
		fmt.Fprintf(s.out, "opening config file: %s\n", path)
		data, err := regular.ReadPrefix(path, envoy.MaxFileBytes+1)
		if err != nil {
			fmt.Fprintf(s.out, "error reading file %s: %s\n", path, err)
			return errNo
		}
		files = append(files, envoy.File{Name: path, Content: data})
	}
	if err := envoy.CheckFiles(files, merge); err != nil {
		if unreadable(files, err) {
			return err
		}
		fmt.Fprintf(s.out, "error loading rate limit configs: %s\n", err)
		return errNo
	}
	fmt.Fprintln(s.out, "all rate limit configs ok")
	return nil
}

// unreadable reports whether the error is of a file that is no rules file, and
// not of what its rules say: config_check_cmd ends in another way then.
func unreadable(files []envoy.File, err error) bool {
	for _, f := range files {
		text, ok := strings.CutPrefix(err.Error(), f.Name+": ")
		for _, begin := range []string{"error loading config file: ", "config error, ", "error checking config", "the file is larger"} {
			if ok && strings.HasPrefix(text, begin) {
				return true
			}
		}
	}
	return false
}
