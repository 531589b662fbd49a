package event

import (
	"hash/maphash"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"
)

// The documentation says how much memory the ring takes.
func TestSlotIsNineLines(t *testing.T) {
	if n := unsafe.Sizeof(slot{}); n != 576 {
		t.Errorf("a slot takes %d bytes: correct Options.Ring", n)
	}
}

func TestAgentOf(t *testing.T) {
	var seen agents
	h := hasher{1, 2}
	f := func(name, want string) {
		t.Helper()
		if got := agentWords[agentOf(name)]; got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
		if name == "" {
			return
		}
		for range 2 { // found out, and remembered
			if got := agentWords[seen.classOfAgent(name, h.hashFact(name))]; got != want {
				t.Errorf("%q is remembered as %s, want %s", name, got, want)
			}
		}
	}
	f("", "none")
	f("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "browser")
	f("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0", "browser")
	f("Mozilla/5.0 (Linux; Android 9; CUBOT X19) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/90.0 Mobile Safari/537.36", "browser")
	f("Opera/9.80 (X11; Linux) Presto/2.12", "browser")
	f("curl/8.5.0", "curl")
	f("Wget/1.21.4", "curl")
	f("Go-http-client/1.1", "go")
	f("grpc-go/1.74.2", "go")
	f("python-requests/2.32.3", "python")
	f("Python/3.12 aiohttp/3.9.1", "python")
	f("Python-urllib/3.11", "python")
	f("Java/17.0.9", "java")
	f("okhttp/4.12.0", "java")
	f("Apache-HttpClient/5.3 (Java/21)", "java")
	f("node", "node")
	f("axios/1.7.2", "node")
	f("node-fetch/1.0 (+https://github.com/bitinn/node-fetch)", "bot") // as it says of itself: it names a page
	f("undici", "node")
	f("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "bot")
	f("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0 Safari/537.36", "bot")
	f("Mozilla/5.0 (compatible; Baiduspider/2.0)", "bot")
	f("Scrapy/2.11.1 (+https://scrapy.org)", "bot")
	f("MyApp/3.1 (iPhone)", "other")
	f("nodeum", "other")
	f(strings.Repeat("x", maxAgent)+" curl/8", "other")
}

func TestFactsAreCut(t *testing.T) {
	var f facts
	h := hasher{3, 5}
	at := taker{seed: maphash.MakeSeed()}
	long := strings.Repeat("ü", 200) // two bytes each
	first, second := known{user: long + "a", path: "/" + long + "a", host: long, method: long, tier: long}, known{user: long + "b", path: "/" + long + "b"}
	at.takeFacts(&f, first, &h)
	for i, c := range []struct{ text, max int }{{textMethod, MaxMethod}, {textHost, MaxHost}, {textPath, MaxPath}, {textUser, MaxUser}, {textTier, MaxTier}} {
		s := f.readText(c.text)
		if len(s) > c.max || len(s) < c.max-1 || !utf8.ValidString(s) {
			t.Errorf("%d: kept %q, want %d bytes", i, s, c.max)
		}
	}
	if f.userRest == 0 {
		t.Error("a user who was cut is taken for whole")
	}
	var a about
	a.addFacts(&f)
	n := newKeyHasher([]byte("0123456789abcdef"), false)
	was := a.buildAbout(n, false).User
	at.takeFacts(&f, second, &h)
	a.addFacts(&f)
	out := a.buildAbout(n, false)
	if out.User == was || out.Users != 2 || out.Paths != 2 {
		t.Errorf("what differs behind the cut is taken for the same: %+v", out)
	}
	at.takeFacts(&f, known{user: "\xff\xfe", path: "/\xff"}, &h)
	if f.userRest != 0 || f.readText(textHost) != "" {
		t.Error("facts remain of whom the room was before")
	}
	a.addFacts(&f)
	if out = a.buildAbout(n, true); out.User != "?" || out.Path != "/?" || out.Users != 3 {
		t.Errorf("what is not UTF-8: %+v", out)
	}
}

// Whoever knows nothing of a client does not know that it sent no name.
func TestNothingIsKnown(t *testing.T) {
	var f facts
	h := hasher{3, 5}
	at := taker{seed: maphash.MakeSeed()}
	n := newKeyHasher([]byte("0123456789abcdef"), true)
	for i, c := range []struct {
		facts known
		known bool
		agent string
	}{
		{known{}, false, ""},
		{known{agent: "curl/8"}, true, "curl"},
		{known{method: "GET"}, true, "none"},
		{known{tier: "gold"}, true, ""},
		{known{address: netip.MustParseAddr("::1")}, true, ""},
	} {
		at.takeFacts(&f, c.facts, &h)
		var a about
		a.addFacts(&f)
		if got := a.buildAbout(n, true).Agent; f.known != c.known || got != c.agent {
			t.Errorf("%d: known %v, agent %q", i, f.known, got)
		}
	}
}

func TestAddresses(t *testing.T) {
	var f facts
	h := hasher{3, 5}
	at := taker{seed: maphash.MakeSeed()}
	n := newKeyHasher([]byte("0123456789abcdef"), true)
	for _, c := range [][3]string{
		{"203.0.113.77", "203.0.113.77", "203.0.113.0/24"},
		{"2001:db8:1:2::3", "2001:db8:1:2::3", "2001:db8:1::/48"},
		{"", "", ""},
	} {
		var addr netip.Addr
		if c[0] != "" {
			addr = netip.MustParseAddr(c[0])
		}
		at.takeFacts(&f, known{address: addr}, &h)
		var a about
		a.addFacts(&f)
		out := a.buildAbout(n, true)
		want := int64(1)
		if c[0] == "" {
			want = 0
		}
		if out.Address != c[1] || out.Network != c[2] || out.Addresses != want {
			t.Errorf("%q: %+v", c[0], out)
		}
		if hashed := a.buildAbout(n, false); c[0] != "" && (len(hashed.Address) != 32 || len(hashed.Network) != 32 || hashed.Address == hashed.Network || hashed.Address != n.keyedHash([]byte(c[0]), 0)) {
			t.Errorf("%q: hashed %+v", c[0], hashed)
		}
	}
}

func TestFewCountsToSixteen(t *testing.T) {
	var f small
	f.addHash(0)
	if f.countDistinct() != 0 {
		t.Error("nothing was counted")
	}
	for i := range uint64(40) {
		f.addHash(i/2 + 1)
		f.addHash(1)
		if got, want := f.countDistinct(), min(int64(i/2+1), MaxDifferent); got != want {
			t.Errorf("%d different ones: counted %d, want %d", i/2+1, got, want)
		}
	}
}

// known is facts as a front end knows them.
type known struct {
	address                               netip.Addr
	method, host, path, user, tier, agent string
}

func (k known) Address() netip.Addr { return k.address }
func (k known) Method() string      { return k.method }
func (k known) Host() string        { return k.host }
func (k known) Path() string        { return k.path }
func (k known) User() string        { return k.user }
func (k known) Tier() string        { return k.tier }
func (k known) Agent() string       { return k.agent }

// Whatever a front end knows, what is told of it can be encoded and is decoded as
// the same.
func FuzzFacts(f *testing.F) {
	f.Add("GET", "api.example", "/a", "ann", "gold", "curl/8", []byte{203, 0, 113, 7})
	f.Add("\xff", "\xe2\x82", strings.Repeat("\xf0\x9f\x98\x80", 40), strings.Repeat("ü", 33), "\x00", "BOT", make([]byte, 16))
	h := hasher{3, 5}
	at := taker{seed: maphash.MakeSeed()}
	f.Fuzz(func(t *testing.T, method, host, path, user, tier, agent string, address []byte) {
		k := known{method: method, host: host, path: path, user: user, tier: tier, agent: agent}
		k.address, _ = netip.AddrFromSlice(address)
		var one facts
		at.takeFacts(&one, k, &h)
		var a about
		a.addFacts(&one)
		for _, plain := range []bool{true, false} {
			r := &Record{Count: 1, Every: 1, About: a.buildAbout(newKeyHasher([]byte("0123456789abcdef"), plain), plain)}
			e := Event{Source: "n", Sequence: 1, Record: r}
			text, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			back, err := Decode(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if *back.Record.About != *r.About {
				t.Errorf("told %+v, decoded %+v", r.About, back.Record.About)
			}
		}
	})
}
