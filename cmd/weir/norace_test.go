//go:build !race

package main_test

// raceEnabled: the binary under test is built like the test.
const raceEnabled = false
