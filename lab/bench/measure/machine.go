package measure

import (
	"fmt"
	"os"
)

// Machine is for how long the processors of this machine have been busy and idle,
// in ticks since it started.
type Machine struct{ busy, idle int64 }

// ReadMachine reads it. It fails where there is no /proc/stat, as only Linux has it.
func ReadMachine() (Machine, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Machine{}, err
	}
	return parseMachine(string(text))
}

// parseMachine reads the first line of /proc/stat: proc(5). What guests took is in
// user and nice already.
func parseMachine(text string) (m Machine, err error) {
	var user, nice, system, idle, wait, irq, soft, steal int64
	if _, err := fmt.Sscanf(text, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &soft, &steal); err != nil {
		return m, fmt.Errorf("/proc/stat: %w", err)
	}
	return Machine{busy: user + nice + system + irq + soft + steal, idle: idle + wait}, nil
}

// Busy returns which part of the time since an earlier reading the processors were
// busy, 0 to 1; 0 if no tick has passed.
func (m Machine) Busy(since Machine) float64 {
	busy, idle := m.busy-since.busy, m.idle-since.idle
	if busy+idle <= 0 {
		return 0
	}
	return float64(busy) / float64(busy+idle)
}
