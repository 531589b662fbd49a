package servertest

import (
	"os/exec"
	"slices"
	"strings"
)

// Invoke returns a command with arguments. Those of the form WEIR_NAME=VALUE are variables
// of its environment.
func Invoke(command string, args ...string) *exec.Cmd {
	isVariable := func(arg string) bool { return strings.HasPrefix(arg, "WEIR_") }
	cmd := exec.Command(command, slices.DeleteFunc(slices.Clone(args), isVariable)...)
	for _, arg := range args {
		if isVariable(arg) {
			cmd.Env = append(cmd.Environ(), arg)
		}
	}
	return cmd
}
