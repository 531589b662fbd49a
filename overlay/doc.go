// Package overlay lays operators' decisions about single keys over the rules: a
// ban refuses a key for a time, an override gives it other numbers than its limit
// has, for a time or until it is taken back.
//
// They are kept in one small document on a [weir.Board], so all nodes that share a
// store see them: each looks for a new version about once a second, and puts an
// immutable set in front of its rules with one atomic store. While the board is
// away the last good document holds, bans and overrides that end do end, by the
// store's clock as the node knows it. A document that cannot be read, whoever
// wrote it, changes nothing but the log. One that the board has lost, or an older
// one than the node has, is put back.
//
// While there is none of either, they cost a decision one atomic load; else a look
// into a map for each limit that it meets. Neither allocates. A banned request is
// refused without asking the store.
package overlay
