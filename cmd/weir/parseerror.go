package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/config"
)

// unknownFlag finds the flag in the error for one that there is not.
var unknownFlag = regexp.MustCompile(`^unknown flag --([a-z0-9-]+)`)

// noValue finds the flag in the error for one without its value, noArgument the argument in
// that for one that is missing.
var (
	noValue    = regexp.MustCompile(`^--([a-z0-9-]+): expected \S+ value but got "EOL"`)
	noArgument = regexp.MustCompile(`^expected "<([^>]+)>`)
)

// otherNames are flags that many look for, by what there is.
var otherNames = map[string]string{"port": "http", "listen": "http", "address": "http", "redis": "store", "backend": "upstream"}

// explainParseError returns an error that says what to write instead of a flag of an
// earlier version or of another name, or what is missing, and any other error as it is.
func explainParseError(err error) error {
	pe, ok := errors.AsType[*kong.ParseError](err)
	if !ok || pe.Context == nil {
		return err
	}
	if m := noValue.FindStringSubmatch(err.Error()); m != nil {
		for _, f := range pe.Context.Flags() {
			if f.Name == m[1] {
				return fmt.Errorf("--%s needs a value: give %s", m[1], usageOf(f))
			}
		}
	}
	if m := noArgument.FindStringSubmatch(err.Error()); m != nil {
		argument := m[1]
		for _, p := range pe.Context.Selected().Positional {
			if p.Name == m[1] && p.Enum != "" {
				argument = strings.ReplaceAll(p.Enum, ",", " or ")
			}
		}
		return fmt.Errorf("%s needs an argument: give %s", commandOf(pe.Context), argument)
	}
	if strings.HasPrefix(err.Error(), "unknown flag -v,") {
		return errors.New("unknown flag -v: the version is printed by weir version")
	}
	if m := unknownFlag.FindStringSubmatch(err.Error()); m != nil {
		words := commandOf(pe.Context)
		s, moved := config.FindMoved(m[1])
		switch {
		case moved && words == "weir serve":
			return errors.New("--" + m[1] + " " + whereMoved(s))
		case moved && words == "weir analytics" && s.Env() != "":
			return fmt.Errorf("--%s is now %s in the environment", m[1], s.Env())
		case m[1] == "rules" && (words == "weir check" || words == "weir test"):
			return fmt.Errorf("unknown flag --rules: %s takes the file alone, as in %s FILE", words, words)
		}
		for _, f := range pe.Context.Flags() {
			switch {
			case f.Tag.Get("was") == m[1]:
				return fmt.Errorf("--%s is now --%s", m[1], f.Name)
			case f.Name == otherNames[m[1]]:
				return fmt.Errorf("unknown flag --%s: give %s", m[1], usageOf(f))
			}
		}
	}
	if m := unexpected.FindStringSubmatch(err.Error()); m != nil && commandOf(pe.Context) == "weir" && otherCommands[m[1]] != "" {
		return fmt.Errorf("unexpected argument %s: give %s", m[1], otherCommands[m[1]])
	}
	return err
}

// unexpected finds the word in the error for one that is none of the commands.
var unexpected = regexp.MustCompile(`^unexpected argument (\S+)`)

// otherCommands are commands of earlier versions, and those that many look for, by what
// there is.
var otherCommands = map[string]string{
	"ban": "weir key ban KEY=VALUE 1h", "unban": "weir key unban KEY=VALUE", "override": "weir key override KEY=VALUE 100/minute",
	"inspect": "weir key inspect KEY=VALUE", "reset": "weir key reset KEY=VALUE", "lint": "weir check FILE", "validate": "weir check FILE",
	"start": "weir serve", "run": "weir serve", "rules": `weir check --from-limit "100/minute by ip"`, "suggest": "weir replay RULES LOG",
	"simulate": "go run github.com/weirlimit/weir/lab/simulate@latest",
}

// whereMoved says where the setting of an old flag or variable is now.
func whereMoved(s config.Setting) string {
	switch {
	case s.Flag != "":
		return fmt.Sprintf("is now --%s (%s in the configuration file)", s.Flag, s.Key)
	case s.Env() != "":
		return fmt.Sprintf("is now %s in the configuration file, given with --config FILE, or %s in the environment", s.Key, s.Env())
	}
	return fmt.Sprintf("is now %s in the configuration file, given with --config FILE", s.Key)
}

// commandOf returns the words of the subcommand that ctx got to.
func commandOf(ctx *kong.Context) string {
	words := "weir"
	for _, p := range ctx.Path {
		if p.Command != nil {
			words += " " + p.Command.Name
		}
	}
	return words
}
