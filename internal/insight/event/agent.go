package event

import (
	"strings"
	"sync/atomic"
	"unsafe"
)

// agent is a class of clients' software.
type agent uint8

const (
	agentNone agent = iota // no name was sent
	agentBrowser
	agentCurl
	agentGo
	agentPython
	agentJava
	agentNode
	agentBot
	agentOther
)

var agentWords = [...]string{
	agentNone: "none", agentBrowser: "browser", agentCurl: "curl", agentGo: "go", agentPython: "python",
	agentJava: "java", agentNode: "node", agentBot: "bot", agentOther: "other",
}

// maxAgent is how many bytes of a User-Agent are looked at.
const maxAgent = 256

// agentParts say which class a name is of: the first that occurs in it, in lower
// case, decides. Bots come first, since many claim to be browsers too, and
// browsers last, since everything claims to be Mozilla.
var agentParts = [...]struct {
	part  string
	class agent
}{
	{"cubot", agentBrowser}, // a telephone
	{"bot", agentBot}, {"crawl", agentBot}, {"spider", agentBot}, {"slurp", agentBot}, {"scrapy", agentBot},
	{"headlesschrome", agentBot}, {"externalhit", agentBot}, {"+http", agentBot},
	{"curl/", agentCurl}, {"wget/", agentCurl}, {"httpie/", agentCurl},
	{"go-http-client/", agentGo}, {"go-resty/", agentGo}, {"grpc-go/", agentGo},
	{"python", agentPython}, {"aiohttp/", agentPython},
	{"okhttp/", agentJava}, {"java/", agentJava}, {"java-http-client/", agentJava}, {"apache-httpclient/", agentJava},
	{"jersey/", agentJava}, {"grpc-java", agentJava}, {"reactornetty/", agentJava},
	{"node-fetch", agentNode}, {"axios/", agentNode}, {"undici", agentNode}, {"got (", agentNode}, {"node.js", agentNode},
	{"superagent", agentNode}, {"grpc-node", agentNode}, {"deno/", agentNode}, {"bun/", agentNode},
	{"mozilla/", agentBrowser}, {"opera/", agentBrowser},
}

// agentOf returns the class of a User-Agent.
func agentOf(name string) agent {
	if name == "" {
		return agentNone
	}
	if name == "node" { // what the fetch of Node.js sends
		return agentNode
	}
	var lower [maxAgent]byte
	n := copy(lower[:], name)
	for i, c := range lower[:n] {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	text := unsafe.String(&lower[0], n)
	for i := range agentParts {
		if strings.Contains(text, agentParts[i].part) {
			return agentParts[i].class
		}
	}
	return agentOther
}

// agents remembers the classes of names that were seen lately: to find one out
// takes a microsecond. It is a table without chains, safe for concurrent use. An
// entry is the upper bits of a name's hash, and below them its class.
type agents [256]atomic.Uint64

func (a *agents) classOfAgent(name string, hash uint64) agent {
	e := &a[hash>>56]
	if v := e.Load(); v != 0 && v>>8 == hash>>8 {
		return agent(v)
	}
	class := agentOf(name)
	e.Store(hash&^0xff | uint64(class))
	return class
}
