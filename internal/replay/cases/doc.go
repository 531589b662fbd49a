// Package cases tests rules: it plays the steps of a file against them on a clock
// of its own, and says where they decide otherwise than the file expects.
package cases
