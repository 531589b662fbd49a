package cases

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/weirlimit/weir/internal/spell"
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

// meant asks whether a word that is not known was meant to be one that is.
func meant(word string, known []string) string {
	if s := spell.Nearest(word, known); s != "" {
		return fmt.Sprintf(" (did you mean %q?)", s)
	}
	return ""
}
