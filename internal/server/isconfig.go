package server

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/regular"
)

// IsConfig reports whether a file is a configuration of weir serve, by its content: it has
// a key of one, and none that begins rules. A file that cannot be read is none.
func IsConfig(path string) bool {
	data, err := regular.Read(path, maxConfig)
	var doc yaml.Node
	if err != nil || yaml.Unmarshal(data, &doc) != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return false
	}
	top := doc.Content[0]
	if lookUp(top, "domain") != nil || lookUp(top, "descriptors") != nil {
		return false
	}
	return slices.ContainsFunc(reflect.VisibleFields(reflect.TypeFor[Config]()), func(f reflect.StructField) bool {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		return name != "" && name != "-" && lookUp(top, name) != nil
	})
}
