// Package traffic makes up traffic of clients that are known: who they are, what
// they ask for, how often, what they do when they are refused, and what they in
// truth are. It is for tests of whatever judges clients.
//
// A scenario is the same for the same seed. Clients hear what was decided, so the
// traffic depends on the limiter that it is played to.
package traffic
