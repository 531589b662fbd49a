package config

import (
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/regular"
	"github.com/weirlimit/weir/internal/spell"
)

// IsConfig reports whether a file is a configuration of weir serve, by its content: it has
// a key of one, maybe misspelt, and none that begins rules or cases. A file that cannot be
// read is none.
func IsConfig(path string) bool {
	data, err := regular.Read(path, maxConfig)
	var doc yaml.Node
	if err != nil || yaml.Unmarshal(data, &doc) != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return false
	}
	top, others := doc.Content[0], []string{"domain", "descriptors", "cases"}
	for _, name := range others {
		if valueOfKey(top, name) != nil {
			return false
		}
	}
	_, keys := fieldsOf(reflect.ValueOf(Config{}))
	found := false
	for i := 0; i+1 < len(top.Content); i += 2 {
		switch name := top.Content[i].Value; {
		case slices.Contains(keys, name), spell.Nearest(name, keys) != "":
			found = true
		case spell.Nearest(name, others) != "":
			return false
		}
	}
	return found
}
