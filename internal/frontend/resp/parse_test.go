package resp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// parsed reads all commands of b, which arrives in pieces of the given length,
// and returns them as text, and the error that ended them.
func parsed(b []byte, piece int, most bounds) (string, error) {
	var out strings.Builder
	var p parser
	b = bytes.Clone(b) // words are cut in place
	for from, have := 0, 0; ; {
		done, err := p.parseCommand(b[from:have], most)
		if err != nil {
			return out.String(), err
		}
		if !done {
			if have == len(b) {
				return out.String(), nil
			}
			have = min(have+piece, len(b))
			continue
		}
		if int(p.pos) > most.command {
			return out.String(), fmt.Errorf("a command of %d bytes", p.pos)
		}
		cmd := command{raw: b[from : from+int(p.pos)], args: p.args}
		for i := range cmd.args {
			fmt.Fprintf(&out, "%q ", cmd.argument(i))
		}
		out.WriteString("/ ")
		from += int(p.pos)
		p.reset()
	}
}

func TestParse(t *testing.T) {
	f := func(text, want, wantErr string) {
		t.Helper()
		for _, piece := range []int{1, 2, 3, 7, 1 << 20} {
			got, err := parsed([]byte(text), piece, lateBounds)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if got != want || said != wantErr {
				t.Errorf("%.60q in pieces of %d:\n%.200s %s\nwant\n%.200s %s", text, piece, got, said, want, wantErr)
			}
		}
	}
	f("*1\r\n$4\r\nPING\r\n", `"PING" / `, "")
	f("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n*0\r\n*-1\r\nPING\r\n\r\n PING a \n", `"ECHO" "" / / / "PING" / / "PING" "a" / `, "")
	f("*1\r\n$4\r\nPIN", "", "")
	f("*1\r\n$6\r\nPI\r\nNG\r\n", `"PI\r\nNG" / `, "")
	f("*x\r\n", "", "Protocol error: invalid multibulk length")
	f("*\r\n", "", "Protocol error: invalid multibulk length")
	f("*1 \r\n", "", "Protocol error: invalid multibulk length")
	f("*1\n$4\r\nPING\r\n", "", "Protocol error: invalid multibulk length")
	f("*1025\r\n", "", "Protocol error: invalid multibulk length")
	f("*1000000\r\n", "", "Protocol error: invalid multibulk length")
	f("*99999999999999999999999\r\n", "", "Protocol error: invalid multibulk length")
	f("*"+strings.Repeat("0", 40), "", "Protocol error: too big mbulk count string")
	f("*1\r\nPING\r\n", "", "Protocol error: expected '$', got 'P'")
	f("*1\r\n\x01\r\n", "", "Protocol error: expected '$', got '?'")
	f("*1\r\n$-1\r\n", "", "Protocol error: invalid bulk length")
	f("*1\r\n$x\r\n", "", "Protocol error: invalid bulk length")
	f("*1\r\n$2147483648\r\n", "", "Protocol error: invalid bulk length")
	f("*1\r\n$65537\r\n", "", "Protocol error: invalid bulk length")
	f("*1\r\n$"+strings.Repeat("1", 40), "", "Protocol error: too big bulk count string")
	big := strings.Repeat("x", maxBulk)
	f("*1\r\n$65536\r\n"+big+"\r\n", fmt.Sprintf("%q / ", big), "")
	f("*3\r\n$65536\r\n"+big+"\r\n$65536\r\n", "", "Protocol error: invalid bulk length")
	f(big, "", "Protocol error: too big inline request")
	f("ECHO '", "", "")
	f("ECHO 'a'b\n", "", "Protocol error: quotes in an inline command")
	f("PING\nECHO a\"b\"\n", `"PING" / `, "Protocol error: quotes in an inline command")
	f(strings.Repeat("a ", 1025)+"\n", "", "Protocol error: invalid multibulk length")
}

// TestParseBeforeAuthentication: whoever has not authenticated gets less room.
func TestParseBeforeAuthentication(t *testing.T) {
	f := func(text, wantErr string) {
		t.Helper()
		if _, err := parsed([]byte(text), 1<<20, earlyBounds); err == nil || err.Error() != wantErr {
			t.Errorf("%.60q: %v, want %s", text, err, wantErr)
		}
	}
	f("*17\r\n", "Protocol error: unauthenticated multibulk length")
	f("*2\r\n$4097\r\n", "Protocol error: unauthenticated bulk length")
	most := "$4096\r\n" + strings.Repeat("x", 4096) + "\r\n"
	f("*3\r\n"+most+most, "Protocol error: invalid bulk length")
	f(strings.Repeat("x", 4096), "Protocol error: too big inline request")
	if _, err := parsed([]byte("*2\r\n"+most), 1<<20, earlyBounds); err != nil {
		t.Error(err)
	}
}

// FuzzParse: whatever arrives, and in whatever pieces, the same commands come out
// of it, within their bounds.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"*5\r\n$11\r\nCL.THROTTLE\r\n$7\r\nuser123\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n",
		"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "PING\r\n", "ECHO \"a\\x41\\n\" 'b\\'c' d\r\n", "*0\r\n*-1\r\n",
		"*3\r\n$-1\r\n", "*1\r\n$2147483647\r\nx", "*1048576\r\n", "\r\n\n \n", "*1\r\n$1\r\n", "POST / HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	} {
		f.Add([]byte(s), 3, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, piece int, late bool) {
		most := lateBounds
		if !late {
			most = earlyBounds
		}
		whole, err := parsed(b, len(b)+1, most)
		again, againErr := parsed(b, min(max(piece, 1), 1<<20), most)
		if whole != again || fmt.Sprint(err) != fmt.Sprint(againErr) {
			t.Fatalf("at once %s %v\nin pieces of %d %s %v", whole, err, piece, again, againErr)
		}
	})
}

// FuzzCommands: whatever commands come, before authentication or after it, each
// gets one well-formed reply, in order, and nothing panics.
func FuzzCommands(f *testing.F) {
	for _, s := range []string{
		"CL.THROTTLE k 15 30 60 1", "CL.THROTTLE k -1 x 99999999999999999999 -5", "WEIR.CHECK api k v | k w COST 2", "WEIR.REFUND api k v",
		"WEIR.ACQUIRE work k v LEASE x", "WEIR.RELEASE work k v LEASE x", "WEIR.RESET api k v", "MULTI\nPING\nCL.THROTTLE k 1 1 1\nEXEC", "HELLO 3\nINFO\nCOMMAND\nCLIENT GETNAME",
		"AUTH a b\nRESET\nSELECT 3\nTTL k\nDEL k", "COMMAND COUNT", "CONFIG GET *", "nosuch \"\\r\\n\" x", "QUIT\nPING",
	} {
		f.Add([]byte(strings.ReplaceAll(s, "\n", "\r\n")+"\r\n"), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, guarded bool) {
		if len(b) > usualBuffer {
			return
		}
		opt := Options{}
		if guarded {
			opt.Password = "secret"
		}
		s := newBench(t, opt)
		said := &heard{}
		c := s.addConnection(said)
		c.reader.in = make([]byte, usualBuffer)
		c.feed(b)
		n := checkReplies(t, said.b.Bytes())
		var p parser
		commands := 0
		most := lateBounds
		if guarded {
			most = earlyBounds
		}
		for rest := bytes.Clone(b); ; {
			done, err := p.parseCommand(rest, most)
			if err != nil {
				commands++ // is told
			}
			if err != nil || !done {
				break
			}
			if len(p.args) > 0 {
				commands++
			}
			rest = rest[p.pos:]
			p.reset()
		}
		if n != commands && !c.ends && !c.session.isAuthenticated() == guarded {
			t.Fatalf("%d replies to %d commands %q: %q", n, commands, b, said.b.Bytes())
		}
	})
}

// heard keeps what is written to it.
type heard struct {
	quiet
	b bytes.Buffer
}

func (h *heard) Write(b []byte) (int, error) { return h.b.Write(b) }
