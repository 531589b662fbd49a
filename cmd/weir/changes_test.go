package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// numbers of a limit, as people write them, and what they admit: so many at once, and so many
// a day more.
type numbers struct {
	text         string
	most, perDay int
}

var changedNumbers = []numbers{
	{"limit: 100/day, algorithm: token_bucket, burst: 20", 20, 100},
	{"limit: 1000/day, algorithm: token_bucket, burst: 20", 20, 1000},
	{"limit: 10/day, algorithm: token_bucket, burst: 20", 20, 10},
	{"limit: 40/week, algorithm: token_bucket", 40, 6},
	{"limit: 20/day, algorithm: leaky_bucket", 20, 20},
	{"limit: 20/day", 20, 0},
	{"limit: 21/day", 21, 0},
	{"limit: 30/day, algorithm: sliding_counter", 30, 0},
	{"limit: 30/year, algorithm: fixed_window", 30, 0},
	{"limit: 20/day, mode: soft, exceed: 10%", 22, 0},
	{"limit: 20/day, mode: shadow", 20, 0},
	{"limit: 100/day, algorithm: token_bucket, burst: 20, mode: shadow", 20, 100},
}

// A changer changes one limit of a fleet on every path that there is, and asks for one key.
type changer struct {
	*testing.T
	*rand.Rand
	file, mode string
	args       []string
	nodes      []*testNode
	limit      numbers
	tiers      [2]numbers // of the plans free and pro
	overridden int        // 0: it is not
	version    int        // of the file
	begin      time.Time
	passed     int
	// Of the numbers that were asked by: the most at once, and the most a day.
	most, perDay int
}

// Whatever is changed, by a reload, an override, a tier, a mode or a restart, with units held
// on the nodes: what was spent stays spent, on each kind of store.
func TestFamilyChangesOnEveryPath(t *testing.T) {
	t.Parallel()
	lives := 1
	if os.Getenv("WEIR_SOAK") != "" {
		lives = 12
	}
	single := "redis://" + servertest.Redis(t).Addr + "?timeout=5s&prefix="
	cluster := "redis+cluster://" + servertest.RedisCluster(t, 3)[0].Addr + "?timeout=5s&prefix="
	first := seeds.Of(t)
	for life := range lives {
		for i, c := range []struct {
			store, mode string
			nodes       int
		}{
			{"memory:", "strict", 1}, {single + "strict", "strict", 2}, {single + "leased", "leased", 2}, {cluster + "strict", "strict", 2}, {cluster + "leased", "leased", 2},
		} {
			seed := first + uint64(len("cells")*life+i)
			t.Run(fmt.Sprintf("%s, %s, %d", strings.Split(c.store, ":")[0], c.mode, seed), func(t *testing.T) {
				t.Parallel()
				f := &changer{T: t, Rand: rand.New(rand.NewPCG(seed, 61)), file: filepath.Join(t.TempDir(), "rules.yaml"), mode: c.mode, begin: time.Now()}
				store := c.store
				if c.nodes > 1 {
					store += fmt.Sprint(life)
				}
				f.args = []string{"--store", store, "--rules", f.file}
				f.limit, f.tiers = f.draw(), [2]numbers{f.draw(), f.draw()}
				f.write()
				for range c.nodes {
					f.nodes = append(f.nodes, serve(t, f.args...))
				}
				f.ask()
				for range 8 {
					f.change()
					f.ask()
				}
				f.finish()
			})
		}
	}
}

var plans = []string{"free", "pro", "none"}

func (f *changer) draw() numbers { return changedNumbers[f.IntN(len(changedNumbers))] }

// write has all nodes use the numbers of f.
func (f *changer) write() {
	f.Helper()
	block := func(n numbers) string {
		return fmt.Sprintf("{name: main, %s, consistency: {mode: %s}}", n.text, f.mode)
	}
	f.version++
	text := fmt.Sprintf("# %d\ndomain: api\ndescriptors:\n- key: client_id\n  limits: [%s]\n  tiers: {by: plan, limits: {free: [%s], pro: [%s]}}\n",
		f.version, block(f.limit), block(f.tiers[0]), block(f.tiers[1]))
	if err := os.WriteFile(f.file+".new", []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	if err := os.Rename(f.file+".new", f.file); err != nil {
		f.Fatal(err)
	}
}

// change changes something, and returns when all nodes go by it.
func (f *changer) change() {
	f.Helper()
	switch path := f.IntN(6); {
	case path < 2:
		f.limit = f.draw()
		f.reload()
	case path == 2:
		f.tiers[f.IntN(2)] = f.draw()
		f.reload()
	case path == 3 && len(f.nodes) > 1:
		f.limit = f.draw()
		f.write()
		for i, n := range f.nodes {
			n.end(f.T)
			f.nodes[i] = serve(f.T, f.args...)
		}
	case f.overridden > 0:
		f.nodes[0].key(f.T, "override", "client_id=a", "--limit", "main", "--remove")
		f.overridden = 0
		f.wait("not overridden", func(text string) bool { return !strings.Contains(text, `"kind":"override"`) })
	default:
		f.overridden = 10 + f.IntN(30)
		f.nodes[0].key(f.T, "override", "client_id=a", "--limit", "main", fmt.Sprintf("%d/day", f.overridden))
		f.wait("overridden", func(text string) bool { return strings.Contains(text, fmt.Sprintf(`"rate":"%d/day"`, f.overridden)) })
	}
}

func (f *changer) wait(what string, is func(rules string) bool) {
	f.Helper()
	for _, n := range f.nodes {
		servertest.Await(f.T, "the key to be "+what, func() bool {
			_, text := get(f.T, n.admin+"/v1/rules")
			return is(text)
		})
	}
}

func (f *changer) reload() {
	f.Helper()
	var before []uint64
	for _, n := range f.nodes {
		before = append(before, n.rules(f.T).Generation)
	}
	f.write()
	for i, n := range f.nodes {
		servertest.Await(f.T, "the new file to be used", func() bool { return n.rules(f.T).Generation > before[i] })
	}
}

// ask asks for the key on all nodes, under all plans.
func (f *changer) ask() {
	f.Helper()
	f.Logf("%d passed; now %v, %v, overridden by %d", f.passed, f.limit, f.tiers, f.overridden)
	for _, n := range f.nodes { // which charges versions that it knows: others within a second
		for _, plan := range plans {
			f.allows(n, "peek", "warm", plan, 1)
		}
	}
	for range 10 {
		i, cost := f.IntN(3), 1+f.IntN(3)
		plan, n := plans[i], append(f.tiers[:], f.limit)[i]
		f.perDay = max(f.perDay, n.perDay)
		if f.most = max(f.most, n.most); f.overridden > 0 {
			f.most, f.perDay = max(f.most, f.overridden*11/10), max(f.perDay, f.overridden) // it may be soft
		}
		if f.allows(f.nodes[f.IntN(len(f.nodes))], "check", "a", plan, cost) {
			f.passed += cost
		}
	}
	if most := f.most + f.flown(); f.passed > most {
		f.Fatalf("%d passed, at most %d may", f.passed, most)
	}
}

// flown is how many units have flowed back at most, and what is rounded.
func (f *changer) flown() int { return 1 + int(time.Since(f.begin).Hours()*float64(f.perDay)/24) }

func (f *changer) allows(n *testNode, call, client, plan string, cost int) bool {
	f.Helper()
	status, text := post(f.T, n.http+"/v1/"+call, fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":{"client_id":%q}},{"entries":{"plan":%q}}],"cost":%d}`, client, plan, cost))
	if status != 200 || strings.Contains(text, `"degraded":true`) {
		f.Fatal(status, text)
	}
	if strings.Contains(text, `"role":"shadow"`) { // what it would refuse it does not count
		return !strings.Contains(text, `"allowed":false`)
	}
	return strings.HasPrefix(text, `{"allowed":true`)
}

// finish raises the limit: what is left is what was not spent.
func (f *changer) finish() {
	f.Helper()
	if f.overridden > 0 {
		f.nodes[0].key(f.T, "override", "client_id=a", "--limit", "main", "--remove")
	}
	f.limit = numbers{"limit: 500/day", 500, 0}
	f.reload()
	f.wait("not overridden", func(text string) bool { return !strings.Contains(text, `"kind":"override"`) })
	if cost := 500 - f.passed + f.flown() + 1; f.allows(f.nodes[0], "peek", "a", "none", cost) {
		f.Errorf("%d of 500 are left after %d passed", cost, f.passed)
	}
	servertest.Await(f.T, fmt.Sprintf("what was not spent to be there, less than %d passed", f.passed), func() bool { return f.allows(f.nodes[0], "peek", "a", "none", 475-f.passed) })
	f.Logf("%d passed, at most %d at once", f.passed, f.most)
}
