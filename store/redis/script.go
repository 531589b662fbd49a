package redis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// A script is Lua text, and the name under which a server keeps it.
type script struct {
	text string
	sha  string
	// words is how many a row is answered by, if the script decides rows: see
	// rows.lua. Zero if it decides one request.
	words int
	// alone is the script that decides a row of one op which nothing goes with, for
	// less: it is told the verb and the ID before what the row is told.
	alone *script
}

// for1 returns the script for one call, and what it is told before the arguments.
func (s *script) for1() (*script, []string) {
	if s.alone != nil {
		return s.alone, singleSpend
	}
	return s, nil
}

// singleSpend is the verb and the ID of a plain spend.
var singleSpend = []string{verbs[weir.Spend], formatID(0)}

func newScript(text string) *script {
	// Redis names scripts by SHA-1; nothing depends on its strength.
	sum := sha1.Sum([]byte(text))
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

var (
	//go:embed save.lua
	saveLua string
	//go:embed single.lua
	singleLua string
	//go:embed sane.lua
	saneLua string
	//go:embed several.lua
	multiLua string
	//go:embed changed.lua
	changedLua string
)

// serverTime is how a script tells the time: by the server's clock, in
// microseconds since the Unix epoch.
const serverTime = `local t = redis.call('TIME')
local now, hold = t[1] * 1000000 + t[2], 0
`

// timeArgument is how a script tells the time in tests: as the last argument but one
// says. Rows live longer by the last, in milliseconds, as the server's own clock
// decides when they are gone.
const timeArgument = `local now, hold = ARGV[#ARGV - 1] + 0, ARGV[#ARGV] + 0
`

// scripts are those of a store. There is one for each twin, for ops that stand
// alone, one for each row of plain spends, and one for each set of twins that
// meet in other requests: few, as a server keeps them all. Safe for concurrent use.
type scripts struct {
	time    string
	multi   sync.Map // uint64, bit i for the twin of number i -> *script
	rows    sync.Map // uint32, see spendRow -> *script
	repairs sync.Map // number of a twin -> *script
}

// A twin is the script of an algorithm. Several algorithms may share it.
type twin struct {
	algorithm.Script
	number int
}

// singleScript returns the script that decides an op that stands alone.
func (s *scripts) singleScript(t *twin) *script { return s.makeKeyScript(t, singleLua) }

// repairOf returns the script that deletes a key which t cannot have written.
func (s *scripts) repairOf(t *twin) *script {
	return loadOrCreate(&s.repairs, t.number, func() *script { return s.makeKeyScript(t, repairLua) })
}

// loadOrCreate returns what m has for key, which is created the first time.
func loadOrCreate(m *sync.Map, key any, create func() *script) *script {
	made, ok := m.Load(key)
	if !ok {
		made, _ = m.LoadOrStore(key, create())
	}
	return made.(*script)
}

// makeKeyScript fills in the text of a script about one key of t.
func (s *scripts) makeKeyScript(t *twin, text string) *script {
	row := "redis.call('GET', KEYS[1])"
	if t.Collection {
		row = "nil"
	}
	fill := strings.NewReplacer("STEP", t.Name, "ROW", row, "LIMIT", strconv.Itoa(2+t.Spans))
	return newScript(s.time + withoutComments(saneLua) + withoutComments(t.Text) + fill.Replace(withoutComments(text)))
}

// withElders is the bit of a set of twins whose ops have elders, see changed.lua.
const withElders = 1 << 63

// multiScript returns the script that decides ops of the twins in set.
func (s *scripts) multiScript(set uint64) *script {
	return loadOrCreate(&s.multi, set, func() *script {
		var text, functions, names, collections strings.Builder
		text.WriteString(s.time)
		for _, t := range twins {
			if set&(1<<t.number) == 0 {
				continue
			}
			text.WriteString(withoutComments(t.Text))
			fmt.Fprintf(&functions, "[%d] = %s, ", t.number, t.Name)
			fmt.Fprintf(&names, "[%d] = '%s', ", t.number, t.Name)
			fmt.Fprintf(&collections, "[%d] = %v, ", t.number, t.Collection)
		}
		text.WriteString(withoutComments(saneLua))
		text.WriteString(withoutComments(saveLua))
		fmt.Fprintf(&text, "local twins = {%s}\nlocal collection = {%s}\n", functions.String(), collections.String())
		fill := strings.NewReplacer("FETCH", "redis.call('GET', o.key)", "CHARGED", "", "OVER", "", "ELDERS", "")
		if set&withElders != 0 {
			fmt.Fprintf(&text, "local names = {%s}\n%s", names.String(), withoutComments(algorithm.SpentScript))
			fill = strings.NewReplacer("FETCH", "fetch(o)", "CHARGED", "chargeElders(o)", "OVER", "for i = 1, n do outlast(ops[i]) end", "ELDERS", withoutComments(changedLua))
		}
		text.WriteString(fill.Replace(withoutComments(multiLua)))
		return newScript(text.String())
	})
}

// withoutComments drops the lines of comment that begin a text.
func withoutComments(text string) string {
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// twins are the scripts of all algorithms, each once, in the order of their
// numbers.
var twins = listTwins()

func listTwins() []*twin {
	var all []*twin
	for _, a := range algorithm.All {
		s, ok := a.(algorithm.Scripted)
		if ok && findTwin(all, s.Script().Name) == nil {
			all = append(all, &twin{Script: s.Script(), number: len(all)})
		}
	}
	return all
}

func findTwin(all []*twin, name string) *twin {
	if i := slices.IndexFunc(all, func(t *twin) bool { return t.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// verbs are the verbs as scripts know them.
var verbs = [...]string{weir.Spend: "0", weir.Peek: "1", weir.Force: "2", weir.Refund: "3"}

func formatID(id int64) string {
	if id == 0 {
		return "0"
	}
	return strconv.FormatInt(id, 10)
}
