package redis

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/neighbor"
)

// The name of a key in Redis is PREFIX:{KEY}:LIMIT. In a cluster only what is
// between the braces chooses the slot, so all limits on one key share a slot and
// are decided together.
//
// KEY is the op's key. Braces in it are escaped, else a client could choose the
// slot that its key falls into, and so is the percent sign that escapes them. A
// key longer than maxTag is told by its hash; the empty key is a percent sign. What lies
// beside a key, as a mark of its calls does, has a name of its own behind the brace:
// PREFIX:{KEY}NAME}:LIMIT.
//
// LIMIT is a hash of the limit's scope, algorithm and layout.

// maxTag is the longest key, escaped, that is written out, in bytes.
const maxTag = 96

// tagForKey returns what stands for key between the braces, and with what lies beside another
// behind them.
func tagForKey(key string) string {
	if key, name, ok := neighbor.Cut(key); ok {
		return escaped(key) + "}" + escaped(name)
	}
	return escaped(key)
}

// escaped is tag of a key that lies beside none.
func escaped(key string) string {
	if key == "" {
		return "%"
	}
	if len(key) <= maxTag && strings.IndexByte(key, '%') < 0 && strings.IndexByte(key, '{') < 0 && strings.IndexByte(key, '}') < 0 {
		return key
	}
	if len(key) <= maxTag {
		if text := escape.Replace(key); len(text) <= maxTag {
			return text
		}
	}
	// 128 bits: that two of 2^40 keys share a name has a chance of 2^-49. No
	// escaped key begins like this.
	sum := sha256.Sum256([]byte(key))
	return "%#" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// limitTag returns what stands for a limit: 64 bits of a hash, the same on every
// node.
func limitTag(l *weir.Limit) string {
	sum := sha256.Sum256([]byte(l.Scope + "\x1f" + l.Algorithm.Name() + "\x1f" + l.Layout))
	return base64.RawURLEncoding.EncodeToString(sum[:8])
}

// slots is how many slots a cluster has.
const slots = 16384

// slotOf returns the slot of a tag: CRC16 of what is between the braces, XMODEM
// variant, as the Redis Cluster specification has it.
func slotOf(tag string) int {
	var crc uint16
	tag, _, _ = strings.Cut(tag, "}")
	for i := range len(tag) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^tag[i]]
	}
	return int(crc % slots)
}

var crc16 = makeCRC16()

func makeCRC16() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}
