// Package retention prunes rows: those that are too old, clients beyond what a limit keeps
// of a minute or an hour, and the oldest where all rows take too much room.
package retention
