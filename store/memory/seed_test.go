package memory

import (
	"fmt"
	"hash/maphash"
	"testing"
)

// Two processes put keys in different places, so that nobody can find out at
// home which keys meet in another's memory.
func TestHashesAreSeeded(t *testing.T) {
	a, b := New(Options{}), New(Options{})
	defer a.Close()
	defer b.Close()
	same := 0
	for i := range 1000 {
		key := fmt.Sprint("key", i)
		if maphash.String(a.tables.seed, key)&0xff == maphash.String(b.tables.seed, key)&0xff {
			same++
		}
	}
	// Four are expected of 256 places; 40 would be a wonder.
	if same > 40 {
		t.Errorf("%d of 1000 keys have one place in both", same)
	}
}
