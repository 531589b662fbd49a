// Package chromium tests the browser module in a real Chromium.
//
// It is a module of its own: a driver of browsers is of no use to anybody who
// imports Weir, and is not to be in the module graph of those who do.
package chromium
