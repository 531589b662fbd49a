package analytics

import "math"

// A row of a client has cells, numbers that are put together each in its way, and
// words, of which the newest counts.

// Cells of a client's row.
const (
	cAllowed = iota
	cRefused
	cSoft
	cBorrowed
	cDelayed
	cShadow
	cEstimated
	cDegradedCount // decisions of the outcome degraded
	cOther         // outcomes that are not known here
	cUnits
	cDecisive
	cEarly
	cRecords
	cSeconds // in which it was active: neighbouring records may share one
	cWithout // records that were decided without the usual guarantee
	cMerged  // rows that were merged into this one
	cAnswers
	cOK
	cRedirect
	cDenied
	cClientError
	cServerError
	cTotalMS
	cLongestMS
	cLeast      // that remained
	cPeak       // units in a second, of one node
	cPeakMinute // units in a minute; of rows by hour only
	cRetry      // ms, never is retryNever
	cDelay      // ms
	cFirst      // µs since the Unix epoch
	cLast       // likewise
	cEvery      // of the sample that the key belongs to, 0 if it does not
	cWatched
	cUnhashed
	cUsers
	cAgents
	cPaths
	cAddresses
	cUserBits
	cAgentBits
	cPathBits
	cAddressBits
	numCells
)

// Words of a client's row.
const (
	wSource = iota
	wAddress
	wNetwork
	wMethod
	wHost
	wPath
	wUser
	wTier
	wAgent
	numWords
)

// retryNever stands for a Retry-After of never, so that it is the longest.
const retryNever = 1 << 52

// noLeast is the cell of what remained least where nothing is known.
const noLeast = math.MaxInt64

var cellColumns = [numCells]column{
	cAllowed: {"allowed", sum}, cRefused: {"refused", sum}, cSoft: {"soft", sum}, cBorrowed: {"borrowed", sum},
	cDelayed: {"delayed", sum}, cShadow: {"shadow", sum}, cEstimated: {"estimated", sum}, cDegradedCount: {"degraded", sum},
	cOther: {"other", sum}, cUnits: {"units", sum}, cDecisive: {"decisive", sum}, cEarly: {"early", sum},
	cRecords: {"records", sum}, cSeconds: {"seconds", sum}, cWithout: {"without", sum}, cMerged: {"merged", sum},
	cAnswers: {"answers", sum}, cOK: {"ok", sum}, cRedirect: {"redirect", sum}, cDenied: {"denied", sum},
	cClientError: {"client_error", sum}, cServerError: {"server_error", sum}, cTotalMS: {"total_ms", sum}, cLongestMS: {"longest_ms", most},
	cLeast: {"least", least}, cPeak: {"peak", most}, cPeakMinute: {"peak_minute", most}, cRetry: {"retry", most}, cDelay: {"delay", most},
	cFirst: {"first_us", least}, cLast: {"last_us", most}, cEvery: {"every", most}, cWatched: {"watched", either}, cUnhashed: {"plain", either},
	cUsers: {"users", most}, cAgents: {"agents", most}, cPaths: {"paths", most}, cAddresses: {"addresses", most},
	cUserBits: {"user_bits", either}, cAgentBits: {"agent_bits", either}, cPathBits: {"path_bits", either}, cAddressBits: {"address_bits", either},
}

var wordColumns = [numWords]string{
	wSource: "source", wAddress: "address", wNetwork: "network", wMethod: "method", wHost: "host", wPath: "path",
	wUser: "username", wTier: "tier", wAgent: "agent",
}

// outcomeCells has the cell of each outcome, by its word.
var outcomeCells = map[string]int{
	"allowed": cAllowed, "refused": cRefused, "soft": cSoft, "borrowed": cBorrowed, "delayed": cDelayed,
	"shadow_refused": cShadow, "estimated": cEstimated, "degraded": cDegradedCount,
}

// cells are a client's row without its name.
type cells struct {
	n [numCells]int64
	w [numWords]string
}

// none is a row that tells nothing.
func none() *cells {
	c := &cells{}
	c.n[cLeast], c.n[cFirst] = noLeast, math.MaxInt64
	return c
}

// add puts another row into this one.
func (c *cells) add(o *cells) {
	newer := o.n[cLast] >= c.n[cLast]
	for i := range c.w {
		if o.w[i] != "" && (newer || c.w[i] == "") {
			c.w[i] = o.w[i]
		}
	}
	for i := range c.n {
		switch a, b := c.n[i], o.n[i]; cellColumns[i].way {
		case sum:
			c.n[i] = a + b
		case most:
			c.n[i] = max(a, b)
		case least:
			c.n[i] = min(a, b)
		case either:
			c.n[i] = a | b
		}
	}
}

// limited is how many decisions limited the client.
func (c *cells) limited() int64 { return c.n[cRefused] + c.n[cDelayed] + c.n[cShadow] }

// allColumns are all.
var allColumns = func() (c clientColumns) {
	for cell := range numCells {
		c.cells = append(c.cells, cell)
	}
	for word := range numWords {
		c.words = append(c.words, word)
	}
	return c
}()

// args appends the values of the columns.
func (c *cells) args(to []any) []any {
	for _, n := range c.n {
		to = append(to, n)
	}
	for _, w := range c.w {
		to = append(to, w)
	}
	return to
}

// upsertClient puts a row into the one that is there. It answers with the units
// that the row has then.
var upsertClient = clientsTable.upsert("units", append(cellColumns[:], columnsOf(newest, wordColumns[:]...)...)...)

// merged returns the row as a part of the row of those that are merged: without
// what only one client can have.
func (c *cells) merged() *cells {
	m := *c
	m.w = [numWords]string{}
	m.n[cMerged] = max(m.n[cMerged], 1)
	for _, i := range [...]int{cUnhashed, cEvery, cWatched, cUsers, cAgents, cPaths, cAddresses, cUserBits, cAgentBits, cPathBits, cAddressBits, cPeak, cPeakMinute} {
		m.n[i] = 0
	}
	return &m
}
