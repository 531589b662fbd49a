//go:build race

package main_test

// raceEnabled: the binary under test is built like the test, which takes
// minutes on a small machine: not with -short.
const raceEnabled = true
