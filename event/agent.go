package event

import "slices"

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

// AgentClasses returns the classes of clients' software, as [About.Agent] has them.
func AgentClasses() []string { return slices.Clone(agentWords[:]) }
