// Package middleware shows Weir's middleware in routers other than net/http's.
// It is a module of its own, so that they enter nobody's module graph.
package middleware
