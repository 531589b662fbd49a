// Package chromium builds the documentation site and reads it in a real Chromium, at the
// width of a phone. It is a module of its own, as a driver of browsers is to be in nobody's
// module graph.
package chromium
