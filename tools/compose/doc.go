// Package compose tests the Compose files of deploy/ with Compose's own library. It is a module of
// its own, so that none of what Compose needs is in the graph of those who use this
// project.
package compose
