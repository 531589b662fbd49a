package cases

import (
	"reflect"
	"slices"
)

// keysOf returns the YAML keys of the struct that to points to.
func keysOf(to any) []string {
	var keys []string
	t := reflect.TypeOf(to).Elem()
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

func contains(list []string, s string) bool { return slices.Contains(list, s) }
