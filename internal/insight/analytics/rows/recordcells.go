package rows

import "github.com/weirlimit/weir/internal/insight/event"

// CellsOfRecord returns a record as a row of its client.
func CellsOfRecord(r *event.Record) *Cells {
	c := NewCells()
	cell, known := OutcomeCells[r.Outcome]
	if !known {
		cell = Other
	}
	c.N[cell] = BoundInt(r.Count)
	if r.Count > 0 {
		c.N[Records], c.N[Seconds], c.N[Least] = 1, 1, min(max(r.Least, 0), maxFigure)
		c.N[Units] = BoundInt(r.Cost)
		// An outcome that is counted beside another is of the same requests.
		if cell == Estimated || cell == DegradedCount {
			c.N[Units] = 0
		}
	}
	c.N[First], c.N[Last] = r.First.UnixMicro(), r.Last.UnixMicro()
	if IsLimiting(r.Outcome) {
		c.N[Decisive] = BoundInt(r.Decisive)
	}
	c.N[Early] = BoundInt(r.Early)
	if c.N[Retry] = BoundInt(r.RetryMS); r.RetryMS < 0 {
		c.N[Retry] = RetryNever
	}
	c.N[Delay] = BoundInt(r.DelayMS)
	c.N[Unhashed], c.N[Without] = CountTrue(r.Unhashed), CountTrue(r.Degraded)
	if r.Merged {
		c.N[Merged] = 1
	} else if r.Outcome == "allowed" {
		if c.N[Watched] = CountTrue(r.Watched); !r.Watched {
			c.N[Every] = max(BoundInt(r.Every), 1)
		}
	}
	c.Words[Source] = CleanText(r.Source)
	if r.About != nil && !r.Merged {
		c.setAbout(r.About)
	}
	if a := r.Answers; a != nil {
		c.N[Answers], c.N[OK], c.N[Redirect], c.N[Denied] = BoundInt(a.Count), BoundInt(a.OK), BoundInt(a.Redirect), BoundInt(a.Denied)
		c.N[ClientError], c.N[ServerError] = BoundInt(a.ClientError), BoundInt(a.ServerError)
		c.N[TotalMS], c.N[LongestMS] = BoundInt(a.TotalMS), BoundInt(a.LongestMS)
	}
	return c
}

func (c *Cells) setAbout(a *event.About) {
	for i, w := range [numWords]string{Address: a.Address, Network: a.Network, Method: a.Method, Host: a.Host, Path: a.Path,
		User: a.User, Tier: a.Tier, Agent: a.Agent} {
		if w != "" {
			c.Words[i] = CleanText(w)
		}
	}
	c.N[Users], c.N[Agents], c.N[Paths], c.N[Addresses] = BoundInt(a.Users), BoundInt(a.Agents), BoundInt(a.Paths), BoundInt(a.Addresses)
	c.N[UserBits], c.N[AgentBits], c.N[PathBits], c.N[AddressBits] = wordBit(a.User), wordBit(a.Agent), wordBit(a.Path), wordBit(a.Address)
}

// ReadAbout returns what the last request told, nil if nothing.
func (c *Cells) ReadAbout() *event.About {
	a := event.About{
		Address: c.Words[Address], Network: c.Words[Network], Method: c.Words[Method], Host: c.Words[Host], Path: c.Words[Path],
		User: c.Words[User], Tier: c.Words[Tier], Agent: c.Words[Agent],
		Users: CountDifferent(c.N[Users], c.N[UserBits]), Agents: CountDifferent(c.N[Agents], c.N[AgentBits]),
		Paths: CountDifferent(c.N[Paths], c.N[PathBits]), Addresses: CountDifferent(c.N[Addresses], c.N[AddressBits]),
	}
	if a == (event.About{}) {
		return nil
	}
	return &a
}

// ReadAnswers returns how requests were answered, nil if that is not known.
func (c *Cells) ReadAnswers() *event.Answers {
	if c.N[Answers] == 0 {
		return nil
	}
	return &event.Answers{Count: c.N[Answers], OK: c.N[OK], Redirect: c.N[Redirect], Denied: c.N[Denied],
		ClientError: c.N[ClientError], ServerError: c.N[ServerError], TotalMS: c.N[TotalMS], LongestMS: c.N[LongestMS]}
}

// CountDifferent returns how many different words there were: the most in one record,
// or what their sketch says.
func CountDifferent(most, bits int64) int64 { return max(most, estimate(bits)) }
