// Package chromium tests the dashboard in a real Chromium, against the real
// command with real traffic.
//
// It is a module of its own: a driver of browsers is of no use to anybody who
// imports Weir, and is not to be in the module graph of those who do.
package chromium
