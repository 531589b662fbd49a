package readers

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/weirlimit/weir/internal/testing/targets"
)

// Keys of two users, and one of nobody.
const (
	aliceKey = "alice-key-0123456789abcdef"
	bobKey   = "bob-key-0123456789abcdef"
	noKey    = "nobodys-key-0123456789abc"
)

// request is one as a client writes it: bytes that no library has put in order.
type request struct {
	target string
	fields []string // as "Name: value"
}

// head is the request on the wire.
func (r request) head() string {
	return "GET " + r.target + " HTTP/1.1\r\nHost: h.example\r\n" + strings.Join(append(r.fields[:len(r.fields):len(r.fields)], "Connection: close"), "\r\n") + "\r\n\r\n"
}

// parse is the request as Go's server hands it on, or an error where that answers 400.
func (r request) parse() (*http.Request, error) {
	return http.ReadRequest(bufio.NewReader(strings.NewReader(r.head())))
}

// once are requests that were counted once as other than what some server served.
var once = []request{
	{target: "/graphql/../health"}, {target: "/graphql/..;/health"}, {target: "/graphql/%2e%2e/health"}, {target: "/graphql/x%2f..%2f../health"},
	{target: "//static/admin/v"}, {target: `/\static/admin/v`}, {target: "http://x//static/admin/v"}, {target: "/admin/v/..%3b/..%5c/health"},
	{target: "/u?[api_key]=" + aliceKey}, {target: "/u?%5Bapi_key%5D=" + aliceKey}, {target: "/u?ap%u0069_key=" + aliceKey},
	{target: "/u", fields: []string{"Cookie: \xa0api_key=" + aliceKey}}, {target: "/u", fields: []string{"Cookie: a=b; \xa0api_key=" + aliceKey}},
	{target: "/q?account=decoy&[account]=v"}, {target: "/q?ACCOUNT=v"}, {target: "/q?account[]=v"}, {target: "/q", fields: []string{"Cookie: account\xa0=v"}},
	{target: "/u?api_key=" + bobKey, fields: []string{"X-Api-Key: " + aliceKey}},
	{target: "/x", fields: []string{`Cookie: account= "victim"`}}, {target: "/x", fields: []string{`Cookie: account = "victim"`}},
	{target: "/x", fields: []string{`Cookie: account="victim" ; a=b`}}, {target: "/x", fields: []string{`Cookie: account=victim" ; a=b`}},
}

// ordinary are requests as people write them, which pass.
var ordinary = []request{
	{target: "/"}, {target: "/login/"}, {target: "/%7Eu"}, {target: "/caf%c3%a9"}, {target: "/a[0]|b"}, {target: "/x?filter[name]=a&page=2"},
	{target: "/x?account=a%20b"}, {target: "/x?q=50%25+off"}, {target: "/x?api_key=" + aliceKey + "&page=2"},
	{target: "/x", fields: []string{"X-Api-Key: " + aliceKey}}, {target: "/x", fields: []string{"Cookie: _ga=GA1.2.3; account=7; theme=dark"}},
	{target: "/x", fields: []string{`Cookie: account="victim"; prefs={"a":1}`}}, {target: "/x", fields: []string{"Cookie: api_key=" + aliceKey + "; a=b"}},
}

// maker makes requests as people and attackers write them. One part of each is in doubt.
type maker struct{ *rand.Rand }

func (m maker) pick(of ...string) string { return of[m.IntN(len(of))] }

// seldom returns one of some texts, or mostly none.
func (m maker) seldom(of ...string) string {
	if m.IntN(4) > 0 {
		return ""
	}
	return m.pick(of...)
}

var (
	words  = []string{"health", "graphql", "static", "admin", "open", "x", "%7Eu"}
	around = []string{"[", "]", "[]", "[0]", "[x]", "%5B", "%5D", "+", "%20", "%A0", "%C2%A0", "%00", "%00x", ".", "_", "-", "?", "%FE", "%0d", "$", "%EF%BB%BF", "%", "%25", "[x][y]", "][", "__proto__", "x", "%E2%80%8B", "%C2%AD", "%EF%BF%BD", "%0A", "%09", "%5C", "%3B", "%26", "%3D", "%23", "&#95;", "{}", "()", "*", "~", "|", "'", "%25%35%42"}
)

// next makes a request.
func (m maker) next() request {
	switch m.IntN(6) {
	case 0, 1:
		return request{target: targets.Make(m.Rand, words)}
	case 2:
		return request{target: m.pick("/", "/x", "/admin/x") + "?" + m.query("api_key", aliceKey, aliceKey, bobKey, noKey)}
	case 3:
		return request{target: m.pick("/", "/x", "/admin/x") + "?" + m.query("account", "victim", "%76ictim", "a+b", "decoy", "a%40b", "7")}
	case 4:
		name, values := "api_key", []string{aliceKey, aliceKey, bobKey, noKey}
		if m.IntN(2) == 0 {
			name, values = "account", []string{"victim", "%76ictim", "a+b", "decoy", "7", `"victim"`}
		}
		fields := []string{"Cookie: " + m.cookies(name, values...)}
		if m.IntN(6) == 0 {
			fields = append(fields, m.pick("Cookie: ", "cookie:")+m.cookies(name, values...))
		}
		return request{target: "/x", fields: fields}
	}
	var fields []string
	for range 1 + m.IntN(3) {
		name := m.pick("X-Api-Key", "X-Api-Key", "x-api-key", "X-API-KEY", "X_Api_Key", "X-Api_Key", "X-Api.Key", "X-Api-Key ", "X-Api-Keys")
		fields = append(fields, fmt.Sprintf("%s:%s%s%s", name, m.pick(" ", "", "\t"), m.pick(aliceKey, bobKey, noKey), m.seldom(" ", ", x", ",", " x", "\t")))
	}
	if m.IntN(4) == 0 {
		fields = append(fields, "Connection: "+m.pick("", "close, ", "keep-alive,")+m.pick("X-Api-Key", "x-api-key", "X_Api_Key", "X-Other", "Cookie", "Host", "Content-Type, X-API-KEY", "Upgrade", "X-Api-Key;q=1"))
	}
	return request{target: m.pick("/x", "/x?api_key="+aliceKey, "/x?account=victim"), fields: fields}
}

// spell writes a name as a reader may find it again.
func (m maker) spell(name string) string {
	switch m.IntN(8) {
	case 0:
		return m.pick(strings.ToUpper(name), strings.ReplaceAll(name, "_", "."), strings.ReplaceAll(name, "_", "-"), strings.ReplaceAll(name, "_", ""), "["+name+"]", name[:3]+"["+name[3:], name+"s", "my_"+name)
	case 1:
		return fmt.Sprintf("%%%02x", name[0]) + name[1:]
	case 2:
		return fmt.Sprintf("%%25%02x", name[0]) + name[1:]
	case 3:
		return name[:2] + fmt.Sprintf("%%u%04x", name[2]) + name[3:]
	case 4:
		return strings.ReplaceAll(name, "_", "%5F")
	}
	return name
}

func (m maker) query(name string, values ...string) string {
	var b strings.Builder
	for i, n := 0, 1+m.IntN(3); i < n; i++ {
		if i > 0 {
			b.WriteString(m.pick("&", "&", ";", "&&", "&amp;", ",", "?"))
		}
		if m.IntN(4) == 0 {
			b.WriteString(m.pick("a=b", "page=2", "filter[x]=y", "q", "=", "_=1"))
			continue
		}
		b.WriteString(m.seldom(around...) + m.spell(name) + m.seldom(around...) + "=" + m.seldom("=", "]=", "[=", "+", "%20", "%22", "[", "%00") + m.pick(values...) + m.seldom("+", "%0a", ",x", "]=x", "%FF", ";x"))
	}
	return b.String()
}

func (m maker) cookies(name string, values ...string) string {
	line := m.seldom("\xa0", "$Version=1; ", "; ", "a=b, ", "a=b ", "a=\"; ", "caf\xc3\xa9=1; ", "a=b; ")
	for i, n := 0, 1+m.IntN(3); i < n; i++ {
		if i > 0 {
			line += m.pick("; ", "; ", ";", ", ", ",", " ", ";\t", "&", "\";")
		}
		line += m.seldom(append(around, "\xa0", "\t", " ", "\"", "\v", "\x85")...) + m.spell(name) + m.seldom("\xa0", "\t", " ", "[]", "\"") + "=" + m.seldom("=", " ", "\"", "j:", "j:\"", "\xa0", "+") + m.pick(values...) + m.seldom("\"", " ", ",x", " x", "\\", "\xa0", "+", "%20")
	}
	return strings.TrimRight(line, " \t")
}
