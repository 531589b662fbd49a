//go:build !windows

package terminal

import "os"

// showColours reports whether a terminal shows colours: one that is not named may not.
func showColours(*os.File) bool { return os.Getenv("TERM") != "" }
