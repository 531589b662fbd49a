package main

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir"
)

// splitter stands between two descriptors on a command line.
const splitter = "+"

// descriptors reads "key=value" words: the entries of one descriptor in order,
// and of further ones after each "+".
func descriptors(words []string) ([]weir.Descriptor, error) {
	out := []weir.Descriptor{{}}
	for _, w := range words {
		last := &out[len(out)-1]
		if w == splitter {
			if len(last.Entries) == 0 {
				return nil, fmt.Errorf("nothing stands before %q: write key=value %s key=value", splitter, splitter)
			}
			out = append(out, weir.Descriptor{})
			continue
		}
		key, value, ok := strings.Cut(w, "=")
		switch {
		case !ok && looksLikeFile(w):
			return nil, fmt.Errorf("%q looks like a file, not like an entry: write key=value, such as client_id=123; only weir explain takes files, before the entries", w)
		case !ok, key == "":
			return nil, fmt.Errorf("%q is not an entry: write key=value, such as client_id=123", w)
		}
		last.Entries = append(last.Entries, weir.Entry{Key: key, Value: value})
	}
	if len(out[len(out)-1].Entries) == 0 {
		return nil, fmt.Errorf("a descriptor without entries: write key=value, such as client_id=123")
	}
	return out, nil
}
