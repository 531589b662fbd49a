package resp

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/testing/seeds"
)

// TestMemo: what a connection remembers of its last command changes no reply,
// however commands resemble each other and wherever they are cut.
func TestMemo(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 3))
	one, many := newBench(t, Options{}), newBench(t, Options{})
	var commands [][]byte
	for range 3000 {
		words := []string{"CL.THROTTLE", []string{"k", "kk", "key", "15", "$2\r\n15"}[r.IntN(5)], []string{"5", "6", "15"}[r.IntN(3)], []string{"3", "30"}[r.IntN(2)], []string{"6", "60"}[r.IntN(2)]}
		switch r.IntN(12) {
		case 0:
			words = append(words, []string{"1", "2", "0", "-1"}[r.IntN(4)])
		case 1:
			words[0] = "rl.throttle"
		case 2:
			words = []string{"SELECT", fmt.Sprint(r.IntN(3))}
		case 3:
			words = []string{"DEL", "k"}
		case 4:
			words[2] = "x"
		case 5:
			words = words[:4]
		}
		if r.IntN(10) == 0 && len(words[1]) < 4 {
			line := ""
			for _, w := range words {
				line += w + " "
			}
			commands = append(commands, []byte(line+"\r\n"))
			continue
		}
		commands = append(commands, wire(words...))
	}
	c := connect(t, many.listen(t))
	var sent sync.WaitGroup
	sent.Go(func() {
		var all []byte
		for _, cmd := range commands {
			all = append(all, cmd...)
		}
		for len(all) > 0 {
			n := min(len(all), 1+rand.IntN(3000))
			if _, err := c.nc.Write(all[:n]); err != nil {
				t.Error(err)
				return
			}
			all = all[n:]
		}
	})
	db := "0"
	for i, cmd := range commands {
		// A connection of its own has nothing to remember.
		alone := one.dial(t)
		if db != "0" {
			alone.do("SELECT", db)
		}
		alone.send(cmd)
		want := alone.reply()
		alone.nc.Close()
		if want == "+OK" {
			db = string(cmd[len(cmd)-3 : len(cmd)-2])
			if cmd[0] != '*' {
				db = string(cmd[len("SELECT ") : len("SELECT ")+1])
			}
		}
		if got := c.reply(); got != want {
			t.Fatalf("command %d, %q: %s, want %s", i, cmd, got, want)
		}
	}
	sent.Wait()
}
