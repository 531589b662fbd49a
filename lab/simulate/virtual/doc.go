// Package virtual runs nodes in a time of their own, which passes only while all of them
// wait: a minute of a fleet takes as long as its work takes.
//
// One task runs at a time, and those that can go on do so in the order in which they
// became able to: a run repeats itself, event by event. A task that waits does so by
// [Node.Park] or [Time.Sleep], and by nothing else, and holds no lock meanwhile.
package virtual
