package main

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/spell"
)

// maxStray is how many variables one warning names.
const maxStray = 5

// linked matches the variables that Kubernetes and Docker set for a service whose name
// begins with weir, and those of this project's tests: they are not meant as settings.
var linked = regexp.MustCompile(`^[A-Z0-9_]+_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)=|^[A-Z0-9_]+_PORT=(tcp|udp|sctp)://|^[A-Z0-9_]+_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=|` +
	`^WEIR_(SEED|SOAK|REQUIRE_SERVERS|TEST_[A-Z_]+)=`)

// warnOfStrayEnv warns of variables of the environment that begin like a setting and
// are none: what they were to set does not hold.
func warnOfStrayEnv(k *kong.Context, log *slog.Logger) {
	var known []string
	for _, n := range k.Model.Leaves(false) {
		for _, f := range flagsOf(n) {
			known = append(known, f.Tag.Envs...)
		}
	}
	for _, setting := range config.Settings() {
		known = append(known, setting.Env())
	}
	if stray := strayEnv(os.Environ(), known); stray != "" {
		log.Warn("environment variables without effect: not settings of this command; `weir help config` lists the settings",
			"variables", stray)
	}
}

// strayEnv returns the names among the variables that begin like those known and are
// none of them, with what was meant, or nothing.
func strayEnv(variables, known []string) string {
	var stray []string
	moved := config.Settings()
	for _, v := range variables {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(strings.ToUpper(name), "WEIR_") || slices.Contains(known, name) || linked.MatchString(v) {
			continue
		}
		if i := slices.IndexFunc(moved, func(s config.Setting) bool { return s.OldEnv() == name }); i >= 0 {
			stray = append(stray, name+" ("+whereMoved(moved[i])+")")
			continue
		}
		near := strings.ToUpper(name)
		if !slices.Contains(known, near) {
			near = spell.Nearest(near, known)
		}
		if near != "" {
			name += fmt.Sprintf(" (did you mean %s?)", near)
		}
		stray = append(stray, name)
	}
	slices.Sort(stray)
	if n := len(stray) - maxStray; n > 0 {
		stray = append(stray[:maxStray], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(stray, ", ")
}
