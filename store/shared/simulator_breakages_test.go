package shared

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A breakage is an expression of a function, in a file under store, and what
// stands for it where a promise is to be broken.
type breakage struct {
	name, file, function, old, new string
}

// breakages are those of the design, by their numbers there, and others of the same parts.
var breakages = []breakage{
	{"B1 a lot of a bucket lives from the answer", "internal/leased/fetch.go", "askForUnits", "reported, a.sent, a.sent, reported,", "reported, d.Clock.Now(), d.Clock.Now(), reported,"},
	{"B2 expiry is not looked at when a lot is drawn", "internal/lot/lot.go", "DrawUnits", "e.ExpireLots(now)", "_ = now"},
	{"B3 time lost is not noticed", "internal/clock/clock.go", "watchWall", "c.lost.Add(over)", "c.ahead += over"},
	{"B3 a holder ends by what is taken for lost time", "internal/permit/holder.go", "expireHolders", "int64(now) - s.clock.LostTime()", "int64(now)"},
	{"B4 a call without an answer is made again without its mark", "internal/transport/once.go", "repeatCall", "nil, all, nil", "nil, ops, nil"},
	{"B5 a return is taken after its window", "../algorithm/fixed_window.go", "admitFixed", "(a.ID == 0 || a.ID == c.end)", "true"},
	{"B6 units of a lot are returned at today's price", "internal/lot/lot.go", "surrender", "e.returns.Surrender", "if e.lots[i].Limit.Traits()&weir.Refills != 0 {\n\t\te.lots[i].Limit = e.Limit\n\t}\n\te.returns.Surrender"},
	{"B7 refunds run before the mark", "shared/take.go", "decideRequest", "if n[byStore] > 0 {\n\t\tif err := d.askWhole(&n); err != nil {\n\t\t\treturn err\n\t\t}\n\t}", "for i := range ops {\n\t\tif d.at[i] == refundToLot && d.of[i].decider.Refund(d.clock.Now(), &ops[i]) {\n\t\t\td.at[i], n[refundToLot] = routes, n[refundToLot]-1\n\t\t}\n\t}"},
	{"B8 a push without an answer is taken for counted", "internal/eventual/push.go", "sendPush", "if e.Flight = nil; err == nil {", "if e.Flight = nil; err != nil {\n\t\tt.push.units = 0\n\t}\n\tif err == nil {"},
	{"B8 a push without an answer is repeated as another", "internal/eventual/push.go", "sendPush", "if e.Flight = nil; err == nil {", "if e.Flight = nil; err != nil {\n\t\tt.push.EndCall()\n\t}\n\tif err == nil {"},
	{"B8 a push that comes twice is counted twice", "internal/eventual/push.go", "pushOps", "ops = append(ops, d.MarkOp(&p.Series, e.Key(), again))", "ops = append(ops, d.MarkOp(&p.Series, e.Key(), again))\n\t\tops[0].Headroom = 0"},
	{"B9 slack outlives its window", "internal/eventual/push.go", "adoptAnswer", "s.Fetched, s.Expiry = o.Cost, end", "s.Fetched, s.Expiry = o.Cost, end.Add(2_000_000)"},
	{"B9 a node takes its share of the overshoot unasked", "internal/eventual/push.go", "adoptAnswer", "o.Decision.Allowed() && end", "end"},
	{"B10 a restarted node pushes under its old name", "internal/transport/mark.go", "MarkOp", "rand()|1", "rand()%1|1"},
	{"B11 a permit is handed out for longer than its lot lives", "internal/permit/permit.go", "acquire", "t.Expiry < until", "t.Expiry < min(now, until)"},
	{"B11 a lot grows under its name", "internal/permit/fetch.go", "renewLot", "t.Expiry, t.Limit =", "t.Free, t.Fetched = t.Free+1, t.Fetched+1\n\t\tt.Expiry, t.Limit ="},
	{"B12 the share goes back before the debt is acknowledged", "internal/outage/debts.go", "PayDebts", "u.Once(calls,", "for i, d := range paid {\n\t\t\tback := []weir.Op{{Key: d.key, Limit: d.share, Cost: calls[i][0].Cost, Role: weir.Always, Verb: weir.Refund}}\n\t\t\tif err := u.Local.Take(context.Background(), back); err != nil {\n\t\t\t\treturn 0, err\n\t\t\t}\n\t\t}\n\t\tu.Once(calls,"},
	{"a server that is out ends calls of all", "internal/transport/shard.go", "enqueueCall", "if s.breaker.isOpen.Load() {", "isOpen := false\n\tfor i := range s.q.shards {\n\t\tisOpen = isOpen || s.q.shards[i].breaker.isOpen.Load()\n\t}\n\tif isOpen {"},
	{"a refused request over several servers stays charged", "internal/transport/cross.go", "chargeFirst", "refuses(ops) {\n\t\t\tt.refundGroups(t.groups[:i])", "refuses(ops) {"},
	{"a region admits without what others need not know", "region/join.go", "Join", "return len(s.peers) + 1, r.cap, nil", "r.cap = l.Burst\n\treturn len(s.peers) + 1, r.cap, nil"},
	{"B12 the end of a caller counts as a failure", "internal/transport/shard.go", "leaveCall", "r.MayRun, r.left = true, c", "r.MayRun, r.left = true, c\n\t\topened = s.breaker.recordCall(true, false) || opened"},
}

// source returns the file of a breakage and its text when broken. The expression occurs
// once in the function.
func (b *breakage) source(t *testing.T) (path, text string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", b.file))
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, before, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != b.function {
			continue
		}
		from, to := fset.Position(f.Pos()).Offset, fset.Position(f.End()).Offset
		if body := string(before[from:to]); strings.Count(body, b.old) == 1 {
			return path, string(before[:from]) + strings.Replace(body, b.old, b.new, 1) + string(before[to:])
		}
	}
	t.Fatalf("%s: %s has no %q: adapt the breakage", b.file, b.function, b.old)
	return "", ""
}

// catch runs a broken simulator on each processor for a minute, with seeds of their own, and
// returns what the first of them finds, that begins with its seed, and else what they say.
func catch(program string) (what, out string) {
	ctx, found := context.WithCancel(context.Background())
	defer found()
	runs := make(chan string)
	for i := range runtime.NumCPU() {
		go func() {
			text, err := exec.CommandContext(ctx, program, "-test.run", "^TestSimulation$", "-for", "60s", "-from", fmt.Sprint(i*1_000_000+1)).CombinedOutput()
			runs <- fmt.Sprintf("%s%v", text, err)
		}()
	}
	for range runtime.NumCPU() {
		out = <-runs
		if _, seed, ok := strings.Cut(out, ": seed "); ok && what == "" {
			what, _, _ = strings.Cut(seed, "\n")
			found()
		}
	}
	return what, out
}

// Each breakage of what shares a store can be made, and with WEIR_SOAK=1 is caught within
// a minute.
func TestBreakagesAreCaught(t *testing.T) {
	for _, b := range breakages {
		t.Run(b.name, func(t *testing.T) {
			path, text := b.source(t)
			if os.Getenv("WEIR_SOAK") != "1" {
				return
			}
			dir := t.TempDir()
			broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
			replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: broken}})
			if err != nil {
				t.Fatal(err)
			}
			for name, data := range map[string][]byte{broken: []byte(text), overlay: replace} {
				if err := os.WriteFile(name, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			program := filepath.Join(dir, "simulator.test")
			if out, err := exec.Command("go", "test", "-c", "-ldflags", "-s -w", "-overlay", overlay, "-o", program, ".").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			start := time.Now()
			what, out := catch(program)
			if what == "" {
				t.Fatalf("not caught: %s", out)
			}
			number, _, _ := strings.Cut(what, ":")
			seed, err := strconv.ParseUint(number, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if r := simulate(t, seed, false); r.broken != "" {
				t.Errorf("seed %d: %s, and nothing is broken", seed, r.broken)
			}
			t.Logf("caught after %v: seed %s", time.Since(start).Round(100*time.Millisecond), what)
		})
	}
}
