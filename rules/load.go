package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/regular"
	"github.com/weirlimit/weir/limits"
)

// Load reads rules files and compiles them. A path is a file, or a directory,
// of which every file named *.yaml or *.yml is read, but for those whose names
// begin with a dot; symbolic links are followed, directories in it are not. It
// is all or nothing: the error is Errors, with all faults of all files, unless
// a file could not be read at all. Warnings are not looked for: Check does.
func Load(paths []string, opt Options) (*limits.Set, error) {
	opt = opt.orDefaults()
	sources, err := readAll(paths, opt)
	if err != nil {
		return nil, err
	}
	l, err := compile(sources, opt)
	return l.set, err
}

// Parse compiles the rules in src. name stands for the file in messages.
func Parse(name string, src []byte, opt Options) (*limits.Set, error) {
	l, err := compile([]source{{name, src}}, opt.orDefaults())
	return l.set, err
}

// Check loads rules like Load, looks for what is allowed and yet likely wrong,
// and returns all faults and warnings. The set is nil if it would not load.
func Check(paths []string, opt Options) (*limits.Set, Errors) {
	opt = opt.orDefaults()
	sources, err := readAll(paths, opt)
	if e, ok := errors.AsType[*Error](err); ok {
		return nil, Errors{e}
	}
	if err != nil {
		return nil, Errors{{File: strings.Join(paths, ", "), Msg: err.Error()}}
	}
	return compileSources(sources, opt, true)
}

// source is a file and what it holds.
type source struct {
	name string
	text []byte
}

// hashSources identifies the contents of sources.
func hashSources(sources []source) string {
	h := sha256.New()
	for _, s := range sources {
		fmt.Fprintf(h, "%d %s %d\n", len(s.name), s.name, len(s.text))
		h.Write(s.text)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func readAll(paths []string, opt Options) ([]source, error) {
	if len(paths) == 0 {
		return nil, fmt.Errorf("rules: no files to load: name a file or a directory")
	}
	var sources []source
	for _, path := range paths {
		files, err := expandPath(path, opt.MaxFiles)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := regular.ReadPrefix(file, int64(opt.MaxBytes)+1)
			if err != nil {
				return nil, err
			}
			sources = append(sources, source{file, text})
		}
	}
	return sources, nil
}

// expandPath returns the files that path stands for, sorted.
func expandPath(path string, max int) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("rules: %w%s", err, seenFrom(path))
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	var files []string
	for _, e := range entries {
		if !isRules(e.Name()) {
			continue
		}
		file := filepath.Join(path, e.Name())
		info, err := os.Stat(file)
		if err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
		if info.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	switch {
	case len(files) == 0:
		return nil, &Error{File: path, Msg: "no *.yaml or *.yml file in it", Hint: "name a file, or put one there"}
	case len(files) > max:
		return nil, fmt.Errorf("rules: %d files in %s are more than %d: raise Options.MaxFiles if this is meant", len(files), path, max)
	}
	slices.Sort(files)
	return files, nil
}

// seenFrom says what a relative path is relative to: not to the file that may
// name it.
func seenFrom(path string) string {
	dir, err := os.Getwd()
	if err != nil || filepath.IsAbs(path) {
		return ""
	}
	return ", seen from the working directory " + dir
}

// isRules reports whether a directory's file of that name is a rules file.
// Kubernetes keeps the real files of a ConfigMap in directories that begin with
// two dots, and editors their scratch files behind one.
func isRules(name string) bool {
	ext := filepath.Ext(name)
	return !strings.HasPrefix(name, ".") && (ext == ".yaml" || ext == ".yml")
}

// loaded is a set of rules, and what it was made of.
type loaded struct {
	set      *limits.Set
	hash     string
	files    int
	rules    int // of the files
	warnings Errors
}

// compile makes a set of sources. The error is Errors.
func compile(sources []source, opt Options) (loaded, error) {
	set, errs := compileSources(sources, opt, true)
	if set == nil {
		return loaded{}, errs
	}
	l := loaded{set: set, hash: hashSources(sources), files: len(sources)}
	for _, r := range set.Rules() {
		if r.File != "" {
			l.rules++
		}
	}
	_, l.warnings = errs.Split()
	return l, nil
}

// compileSources makes a set of sources, and returns all faults and warnings. The set is nil if
// there is a fault. lint asks for warnings of what is allowed and yet likely wrong.
func compileSources(sources []source, opt Options, lint bool) (*limits.Set, Errors) {
	r := &report{}
	c := newCompiler(r, opt, lint)
	d := &decoder{report: r, fields: map[reflect.Type]*fieldSet{}, room: opt.MaxDescriptors}
	for _, s := range sources {
		r.file = s.name
		before := r.faults
		n := r.parseDocument(s.text, &opt)
		if n == nil {
			if r.faults == before {
				c.addFault(nil, "", "begin the file with domain: and a name", noDomain)
			}
			continue
		}
		if kind, hint := otherFile(n); kind != "" {
			r.addFault(n, "", hint, "this file is %s, not rules", kind)
			continue
		}
		spec := new(fileSpec)
		d.path = ""
		d.fillValue(n, reflect.ValueOf(spec).Elem(), "a rules file")
		if spec.Node != nil {
			c.compileFile(spec)
		}
	}
	errs := r.sortedErrors()
	if r.faults > 0 {
		return nil, errs
	}
	layers := slices.Clip(opt.Layers)
	for _, d := range c.domains {
		l, err := limits.NewLayer(d.Domain)
		if err != nil {
			panic(err) // of a rule that is there twice, which c has told
		}
		layers = append(layers, l)
	}
	return limits.NewSet(layers...), errs
}
