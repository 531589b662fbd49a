package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/config"
	seeding "github.com/weirlimit/weir/internal/testing/seeds"
)

// TestVariablesAreAsDocumented: each flag of serve that is a setting is read from the
// variable that the configuration page names, and from no other.
func TestVariablesAreAsDocumented(t *testing.T) {
	parser, err := newParser(&cli{}, streams{})
	if err != nil {
		t.Fatal(err)
	}
	read := map[string][]string{}
	for _, command := range parser.Model.Leaves(true) {
		if command.Name == "serve" {
			for _, f := range command.Flags {
				read[f.Name] = f.Envs
			}
		}
	}
	for _, s := range config.Settings() {
		if s.Flag == "" {
			if s.Env() != "" {
				t.Run(s.Env(), func(t *testing.T) { checkVariable(t, s) })
			}
			continue
		}
		if got := read[s.Flag]; !slices.Equal(got, []string{s.Env()}) {
			t.Errorf("--%s is read from %q, want %s", s.Flag, got, s.Env())
		}
	}
}

// checkVariable checks that the variable of a setting without a flag sets what the file does,
// and that it is named where its value cannot be.
func checkVariable(t *testing.T, s config.Setting) {
	none := func(string) bool { return false }
	path, taken := filepath.Join(t.TempDir(), "weir.yaml"), 0
	for _, value := range []string{"7", "7s", "true"} {
		text := strings.ReplaceAll(s.Key, ".", ": {") + ": " + value + strings.Repeat("}", strings.Count(s.Key, "."))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		fromFile, err := config.Layer(path, config.Defaults(), none)
		t.Setenv(s.Env(), value)
		fromVariable, variableErr := config.Layer("", config.Defaults(), none)
		if err := os.Unsetenv(s.Env()); err != nil {
			t.Fatal(err)
		}
		switch {
		case (err == nil) != (variableErr == nil):
			t.Errorf("%q: %v from the file, %v from the variable", value, err, variableErr)
		case err != nil && !strings.Contains(variableErr.Error(), s.Env()):
			t.Errorf("%q: the error does not name the variable: %v", value, variableErr)
		case err == nil && (!reflect.DeepEqual(fromFile, fromVariable) || reflect.DeepEqual(fromFile, config.Defaults())):
			t.Errorf("%q does not set it, or other things", value)
		case err == nil:
			taken++
		}
	}
	if taken == 0 {
		t.Error("no value is taken")
	}
}

// TestFamilyStrayVariables: a variable that misspells a setting is named, with the
// setting; settings and what Kubernetes sets are not.
func TestFamilyStrayVariables(t *testing.T) {
	rng := rand.New(rand.NewPCG(seeding.Of(t), 0))
	var known []string
	for _, s := range config.Settings() {
		if s.Flag != "" {
			known = append(known, s.Env())
		}
	}
	for _, name := range known {
		if got := strayEnv([]string{name + "=x", "PATH=/bin", "MYWEIR_RULE=x"}, known); got != "" {
			t.Errorf("%s is named: %s", name, got)
		}
		at := len("WEIR_") + rng.IntN(len(name)-len("WEIR_"))
		for _, typo := range []string{name[:at] + name[at+1:], name[:at] + name[at:at+1] + name[at:], name + "S", strings.ToLower(name), name[:at] + "Q" + name[at+1:]} {
			if slices.Contains(known, typo) || typo == "WEIR_" {
				continue
			}
			got := strayEnv([]string{typo + "=hunter2"}, known)
			if !strings.HasPrefix(got, typo) || strings.Contains(got, "hunter2") {
				t.Errorf("%s: named %q", typo, got)
			}
			if len(name) > len("WEIR_")+5 && !strings.Contains(got, "did you mean WEIR_") {
				t.Errorf("%s: nothing is suggested: %q", typo, got)
			}
		}
	}
	for _, set := range []string{"WEIR_SERVICE_HOST=10.0.0.1", "WEIR_SERVICE_PORT=80", "WEIR_SERVICE_PORT_HTTP=80", "WEIR_PORT=tcp://10.0.0.1:80",
		"WEIR_PORT_80_TCP=tcp://10.0.0.1:80", "WEIR_PORT_80_TCP_PROTO=tcp", "WEIR_RULES_SERVICE_HOST=10.0.0.2"} {
		if got := strayEnv([]string{set}, known); got != "" {
			t.Errorf("%s is named: %s", set, got)
		}
	}
	if got := strayEnv([]string{"WEIR_PORT=8080"}, known); got == "" {
		t.Error("WEIR_PORT=8080 is not named")
	}
	var many []string
	for _, c := range "ABCDEFGH" {
		many = append(many, "WEIR_XYZXYZXYZ"+string(c)+"=1")
	}
	if got := strayEnv(many, known); !strings.HasSuffix(got, ", and 3 more") {
		t.Errorf("named %q", got)
	}
}
