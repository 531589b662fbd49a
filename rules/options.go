package rules

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/params"
)

// Options configures how rules are read and watched.
type Options struct {
	// Merge lets several files add to one domain. Zero means that a domain in
	// two files is a fault.
	Merge bool
	// Algorithms that rules can name. Zero means algorithm.All.
	Algorithms []weir.Algorithm
	// Check is asked of every limit: a store's word on whether it can serve it.
	// An error is a fault at the limit's place. Zero means that all are well.
	Check func(*weir.Limit) error
	// CheckCost is asked of every limit for which its rule fixes the cost of a
	// request, as Check is: whether such a request can ever pass. Zero means that all
	// can.
	CheckCost func(l *weir.Limit, cost int64) error
	// Consistency is how every limit counts whose algorithm can, whatever its rule says;
	// the others count strictly. Limits of one node stay so. Zero means as the rules say.
	Consistency params.ConsistencyMode
	// Restarts is asked of a limit and an earlier version of it when files are
	// reloaded: a store's word on why it counts from zero, empty if it goes on. Zero
	// means Limit.Restarts.
	Restarts func(l, old *weir.Limit) string
	// EntryForm returns the form in which front ends write a value of the entry
	// with the given key; an error says why no request has such a value. A rule
	// for another form matches nothing and is warned of. Zero means that only
	// what looks wrong in itself is. See identity.Resolver.EntryForm.
	EntryForm func(key, value string) (string, error)
	// MaxBytes is the most that one file can hold. Zero means 32 MiB.
	MaxBytes int
	// MaxFiles is the most files that a directory can have. Zero means 10,000.
	MaxFiles int
	// MaxDepth is how deep YAML may be nested; each level of descriptors takes
	// two. Zero means 100.
	MaxDepth int
	// MaxNodes is the most values in one file when its aliases are written
	// out. Zero means 10,000,000.
	MaxNodes int
	// MaxDescriptors is the most descriptors in all files together. Zero means
	// 1,000,000.
	MaxDescriptors int
	// Layers are limits beside those of the files. A request must pass all. Nil means
	// none.
	Layers []*limits.Layer
	// StartEmpty lets Open succeed with no rules when the files do not load.
	// Zero means that Open fails.
	StartEmpty bool
	// Poll is how often Live.Watch looks at the files though nobody told it to.
	// Zero means every 30 seconds.
	Poll time.Duration
	// Settle is how long the files must be left alone before Live.Watch reads
	// them. Zero means 50 milliseconds.
	Settle time.Duration
	// Logger is told of every reload. Zero means nobody is.
	Logger *slog.Logger
}

// orDefaults returns opt with the zero values replaced.
func (opt Options) orDefaults() Options {
	opt.MaxBytes, opt.MaxFiles = cmp.Or(opt.MaxBytes, 32<<20), cmp.Or(opt.MaxFiles, 10_000)
	opt.MaxDepth, opt.MaxNodes = cmp.Or(opt.MaxDepth, 100), cmp.Or(opt.MaxNodes, 10_000_000)
	opt.MaxDescriptors = cmp.Or(opt.MaxDescriptors, 1_000_000)
	opt.Poll, opt.Settle = cmp.Or(opt.Poll, 30*time.Second), cmp.Or(opt.Settle, 50*time.Millisecond)
	if opt.Algorithms == nil {
		opt.Algorithms = algorithm.All
	}
	if opt.Restarts == nil {
		opt.Restarts = (*weir.Limit).Restarts
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return opt
}
