package config

import (
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Only a configuration is one, also where all its keys are misspelt.
func TestIsConfig(t *testing.T) {
	for text, want := range map[string]bool{
		"limits: [5/minute]":                  true,
		"limts: [5/minute]":                   true,
		"upstraem: http://127.0.0.1:1":        true,
		"htpp: {}\nrulez: rules.yaml":         true,
		"domain: api\ndescriptors: []":        false,
		"domain: api":                         false,
		"domian: api\ndescriptor: []":         false,
		"descriptors: []\nlimits: [5/minute]": false,
		"rules: [rules.yaml]\ncases: []":      false,
		"rules: [rules.yaml]\nkases: []":      false,
		"anything: else":                      false,
		"- limits":                            false,
		"":                                    false,
		"limits: [":                           false,
	} {
		if got := IsConfig(servertest.File(t, "weir.yaml", text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
