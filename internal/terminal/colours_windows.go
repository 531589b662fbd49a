package terminal

import (
	"os"

	"golang.org/x/sys/windows"
)

// showColours asks a console to show colours, and reports whether it does: those before
// Windows 10 do not. There is no TERM in a command prompt.
func showColours(f *os.File) bool {
	console := windows.Handle(f.Fd())
	var mode uint32
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
