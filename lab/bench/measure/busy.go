package measure

import (
	"fmt"
	"os"
)

// Busy says so when something else keeps the processors busy; else it is empty.
func Busy() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "" // not every system tells
	}
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil || load <= 0.5 {
		return ""
	}
	return fmt.Sprintf("the machine is busy (load %.1f): trust ratios within a table, not the figures", load)
}
