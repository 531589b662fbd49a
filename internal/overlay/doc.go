// Package overlay lays operators' decisions over the rules: a ban refuses a key for
// a time, an override gives it other numbers than its limit has, a free pass lets
// it through, and a mode makes of a limit a shadow, enforces it for all or for a
// share of its keys, or switches it off; for a time or until it is taken back.
//
// They are kept in a small document on a [documents.Board], so all nodes that share a
// store see them: each looks for a new version about once a second, and puts an
// immutable set in front of its rules with one atomic store. While the board is
// away the last good documents hold, and what ends does end, by the store's clock
// as the node knows it. A document that cannot be read, whoever wrote it, changes
// nothing but the log. One that the board has lost, or an older one than the node
// has, is put back.
//
// [Keys] changes what is in force for single keys, [Modes] the modes of limits, and both
// note it in the [Audit]. A match carries one request through what is in force.
//
// All entries stand in one document, of which a node keeps what it does not know: a
// later version may have written it. The last changes, who made them and why, stand in
// a second one, which is read when somebody asks for them.
//
// While there is none of them, they cost a decision one atomic load; else a look
// into a map for each limit that it meets. Neither allocates. A banned request is
// refused without asking the store.
package overlay
