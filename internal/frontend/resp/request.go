package resp

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
)

// What options a command of named rules takes.
type options uint8

const (
	mayCost options = 1 << iota
	mayPriority
	mayLease
)

// words are the options as they are written, each before its value.
var words = [...]struct {
	word string
	when options
}{{"COST", mayCost}, {"PRIORITY", mayPriority}, {"LEASE", mayLease}}

// readRequest reads domain key value [key value ...] [| key value ...] [option value
// ...] into a request from the pool, or complains and returns nil. An option's
// word may be the key of an entry where it stands first in its descriptor.
func readRequest(c *conn, cmd *command, may options) *weir.Request {
	r := c.s.limiter.Acquire()
	if err := c.batch.readRequest(r, cmd, may); err != "" {
		c.s.limiter.Recycle(r)
		c.complain("ERR " + err)
		return nil
	}
	return r
}

// readRequest reads the command into r, and returns what is wrong with it, "" for nothing.
func (b *batch) readRequest(r *weir.Request, cmd *command, may options) string {
	if len(cmd.argument(1)) == 0 || len(cmd.argument(1)) > checks.MaxDomain {
		return fmt.Sprintf("the domain must have from 1 to %d bytes", checks.MaxDomain)
	}
	r.Domain, r.Priority, r.Facts = aliasBytes(cmd.argument(1)), b.s.opt.Priority, checks.Facts(r)
	i, n, from := 2, len(cmd.args), len(b.entries)
	for ; i < n; i += 2 {
		key := cmd.argument(i)
		first := len(b.entries) == from
		if !first && optionOf(key) >= 0 {
			break
		}
		if len(key) == 1 && key[0] == '|' {
			if first || len(r.Descriptors) == checks.MaxDescriptors-1 {
				return fmt.Sprintf("a bar stands between descriptors, of which there may be %d", checks.MaxDescriptors)
			}
			r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: b.entries[from:len(b.entries):len(b.entries)]})
			from = len(b.entries)
			i--
			continue
		}
		switch {
		case i+1 == n:
			return "an entry is a key and a value: the last has no value"
		case len(key) == 0:
			return "the key of an entry is empty"
		case len(b.entries)-from == checks.MaxEntries:
			return fmt.Sprintf("a descriptor may have at most %d entries", checks.MaxEntries)
		}
		b.entries = append(b.entries, weir.Entry{Key: aliasBytes(key), Value: aliasBytes(cmd.argument(i + 1))})
	}
	if len(b.entries) == from {
		return "a descriptor has no entries"
	}
	r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: b.entries[from:len(b.entries):len(b.entries)]})
	if wrong := readOptions(r, cmd, i, may); wrong != "" || !b.s.opt.Strict || may&mayCost == 0 {
		return wrong
	}
	return checks.Unmatched(b.s.limiter, r)
}

// optionOf returns which option a word is, -1 for none.
func optionOf(word []byte) int {
	if len(word) < 4 || len(word) > 8 {
		return -1
	}
	for i, o := range words {
		if strings.EqualFold(aliasBytes(word), o.word) {
			return i
		}
	}
	return -1
}

func readOptions(r *weir.Request, cmd *command, i int, may options) string {
	seen := options(0)
	for ; i < len(cmd.args); i += 2 {
		at := optionOf(cmd.argument(i))
		switch {
		case at < 0:
			return "options stand last: '" + clipArgument(cmd.argument(i)) + "' is none"
		case words[at].when&may == 0:
			return words[at].word + " has no meaning here"
		case words[at].when&seen != 0:
			return words[at].word + " is given twice"
		case i+1 == len(cmd.args):
			return words[at].word + " has no value"
		}
		seen |= words[at].when
		value := cmd.argument(i + 1)
		switch words[at].when {
		case mayLease:
			r.Lease = aliasBytes(value)
			if held := checks.ReadLease(r.Lease); held != nil {
				r.Lease = held.Lease
			} else if len(value) == 0 || len(value) > checks.MaxLease {
				return fmt.Sprintf("LEASE must have 1 to %d bytes", checks.MaxLease)
			}
		case mayCost:
			v, ok := parseInt(value)
			if !ok || v < 0 || v > weir.MaxCost {
				return "COST must be a whole number from 0 to 2^53"
			}
			if r.Cost = v; v == 0 {
				// A request without a cost costs one; nothing is to be spent.
				r.Verb = weir.Peek
			}
		case mayPriority:
			v, ok := parseInt(value)
			if !ok || v < 0 || v > checks.MaxPriority {
				return fmt.Sprintf("PRIORITY must be a whole number from 0 to %d", checks.MaxPriority)
			}
			r.Priority = int(v)
		}
	}
	return ""
}
