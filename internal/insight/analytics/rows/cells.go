package rows

import "math"

// A row of a client has cells, numbers that are put together each in its way, and
// words, of which the newest counts.

// Cells of a client's row.
const (
	Allowed = iota
	Refused
	Soft
	Borrowed
	Delayed
	Shadow
	Estimated
	DegradedCount // decisions of the outcome degraded
	Other         // outcomes that are not known here
	Units
	Decisive
	Early
	Records
	Seconds // in which it was active: neighbouring records may share one
	Without // records that were decided without the usual guarantee
	Merged  // rows that were merged into this one
	Answers
	OK
	Redirect
	Denied
	ClientError
	ServerError
	TotalMS
	LongestMS
	Least      // that remained
	Peak       // units in a second, of one node
	PeakMinute // units in a minute; of rows by hour only
	Retry      // ms, never is RetryNever
	Delay      // ms
	First      // µs since the Unix epoch
	Last       // likewise
	Every      // of the sample that the key belongs to, 0 if it does not
	Watched
	Unhashed
	Users
	Agents
	Paths
	Addresses
	UserBits
	AgentBits
	PathBits
	AddressBits
	NumCells
)

// Words of a client's row.
const (
	Source = iota
	Address
	Network
	Method
	Host
	Path
	User
	Tier
	Agent
	numWords
)

// RetryNever stands for a Retry-After of never, so that it is the longest.
const RetryNever = 1 << 52

// NoLeast is the cell of what remained least where nothing is known.
const NoLeast = math.MaxInt64

// CellColumns are the columns of the cells.
var CellColumns = [NumCells]Column{
	Allowed: {"allowed", Sum}, Refused: {"refused", Sum}, Soft: {"soft", Sum}, Borrowed: {"borrowed", Sum},
	Delayed: {"delayed", Sum}, Shadow: {"shadow", Sum}, Estimated: {"estimated", Sum}, DegradedCount: {"degraded", Sum},
	Other: {"other", Sum}, Units: {"units", Sum}, Decisive: {"decisive", Sum}, Early: {"early", Sum},
	Records: {"records", Sum}, Seconds: {"seconds", Sum}, Without: {"without", Sum}, Merged: {"merged", Sum},
	Answers: {"answers", Sum}, OK: {"ok", Sum}, Redirect: {"redirect", Sum}, Denied: {"denied", Sum},
	ClientError: {"client_error", Sum}, ServerError: {"server_error", Sum}, TotalMS: {"total_ms", Sum}, LongestMS: {"longest_ms", Greatest},
	Least: {"least", Smallest}, Peak: {"peak", Greatest}, PeakMinute: {"peak_minute", Greatest}, Retry: {"retry", Greatest}, Delay: {"delay", Greatest},
	First: {"first_us", Smallest}, Last: {"last_us", Greatest}, Every: {"every", Greatest}, Watched: {"watched", Either}, Unhashed: {"plain", Either},
	Users: {"users", Greatest}, Agents: {"agents", Greatest}, Paths: {"paths", Greatest}, Addresses: {"addresses", Greatest},
	UserBits: {"user_bits", Either}, AgentBits: {"agent_bits", Either}, PathBits: {"path_bits", Either}, AddressBits: {"address_bits", Either},
}

var wordColumns = [numWords]string{
	Source: "source", Address: "address", Network: "network", Method: "method", Host: "host", Path: "path",
	User: "username", Tier: "tier", Agent: "agent",
}

// OutcomeCells has the cell of each outcome, by its word.
var OutcomeCells = map[string]int{
	"allowed": Allowed, "refused": Refused, "soft": Soft, "borrowed": Borrowed, "delayed": Delayed,
	"shadow_refused": Shadow, "estimated": Estimated, "degraded": DegradedCount,
}

// Cells are a client's row without its name.
type Cells struct {
	N     [NumCells]int64
	Words [numWords]string
}

// NewCells is a row that tells nothing.
func NewCells() *Cells {
	c := &Cells{}
	c.N[Least], c.N[First] = NoLeast, math.MaxInt64
	return c
}

// AddRow puts another row into this one.
func (c *Cells) AddRow(o *Cells) {
	newer := o.N[Last] >= c.N[Last]
	for i := range c.Words {
		if o.Words[i] != "" && (newer || c.Words[i] == "") {
			c.Words[i] = o.Words[i]
		}
	}
	for i := range c.N {
		switch a, b := c.N[i], o.N[i]; CellColumns[i].Way {
		case Sum:
			c.N[i] = a + b
		case Greatest:
			c.N[i] = max(a, b)
		case Smallest:
			c.N[i] = min(a, b)
		case Either:
			c.N[i] = a | b
		}
	}
}

// CountLimited is how many decisions limited the client.
func (c *Cells) CountLimited() int64 { return c.N[Refused] + c.N[Delayed] + c.N[Shadow] }

// AppendArgs appends the values of the columns.
func (c *Cells) AppendArgs(to []any) []any {
	for _, n := range c.N {
		to = append(to, n)
	}
	for _, w := range c.Words {
		to = append(to, w)
	}
	return to
}

// UpsertClient puts a row into the one that is there. It answers with the units
// that the row has then.
var UpsertClient = ClientsTable.UpsertStatement("units", append(CellColumns[:], ColumnsOf(Newest, wordColumns[:]...)...)...)

// AsMerged returns the row as a part of the row of those that are merged: without
// what only one client can have.
func (c *Cells) AsMerged() *Cells {
	m := *c
	m.Words = [numWords]string{}
	m.N[Merged] = max(m.N[Merged], 1)
	for _, i := range [...]int{Unhashed, Every, Watched, Users, Agents, Paths, Addresses, UserBits, AgentBits, PathBits, AddressBits, Peak, PeakMinute} {
		m.N[i] = 0
	}
	return &m
}
