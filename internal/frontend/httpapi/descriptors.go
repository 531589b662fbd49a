package httpapi

import (
	"strconv"

	"github.com/weirlimit/weir"
)

// readDescriptors reads the descriptors of req.
func (c *call) readDescriptors(req *weir.Request) {
	r := &c.reader
	r.readArray(func(i int) {
		if i == maxDescriptors {
			r.failValue("at most " + strconv.Itoa(maxDescriptors) + " descriptors")
			return
		}
		var d weir.Descriptor
		var seen uint32
		r.readObject(func(name []byte) {
			switch string(name) {
			case "entries":
				r.refuseRepeat(&seen, 0)
				d.Entries = c.readEntries()
			case "cost":
				if r.refuseRepeat(&seen, 1); !r.readNull() {
					d.Cost = r.integer(0, weir.MaxCost)
					d.Peek = d.Peek || d.Cost == 0
				}
			case "peek":
				if r.refuseRepeat(&seen, 2); !r.readNull() {
					d.Peek = r.boolean() || d.Peek
				}
			default:
				r.unknown("entries, cost and peek")
			}
		})
		if r.err == nil && seen&1 == 0 {
			r.failMissing("entries")
		}
		req.Descriptors = append(req.Descriptors, d)
	})
	if r.err == nil && len(req.Descriptors) == 0 {
		r.failValue("must not be empty")
	}
}

// readEntries reads entries as an array of {"key":..., "value":...}, or as an
// object whose members are taken in the order in which they are written.
func (c *call) readEntries() []weir.Entry {
	r, from := &c.reader, len(c.entries)
	add := func(e weir.Entry) {
		if len(c.entries)-from == maxEntries {
			r.failValue("at most " + strconv.Itoa(maxEntries) + " entries")
		}
		c.entries = append(c.entries, e)
	}
	if r.skipSpace() == '{' {
		r.readObject(func(name []byte) {
			if len(name) == 0 || len(name) > maxKey {
				r.failValue("the key must have from 1 to " + strconv.Itoa(maxKey) + " bytes")
			}
			for _, e := range c.entries[from:] {
				if e.Key == string(name) {
					r.failValue("is there twice; write entries as an array to repeat a key")
				}
			}
			add(weir.Entry{Key: aliasBytes(name), Value: r.readString(0, maxValue)})
		})
	} else {
		r.readArray(func(int) {
			var e weir.Entry
			var seen uint32
			r.readObject(func(name []byte) {
				switch string(name) {
				case "key":
					r.refuseRepeat(&seen, 0)
					e.Key = r.readString(1, maxKey)
				case "value":
					r.refuseRepeat(&seen, 1)
					e.Value = r.readString(0, maxValue)
				default:
					r.unknown("key and value")
				}
			})
			if r.err == nil && seen&1 == 0 {
				r.failMissing("key")
			}
			add(e)
		})
	}
	if r.err == nil && len(c.entries) == from {
		r.failValue("must not be empty")
	}
	return c.entries[from:len(c.entries):len(c.entries)]
}
