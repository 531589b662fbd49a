package event

import "encoding/json"

// Types of the version before: queues may still hold events of them.
const (
	typeRecordV1 = typePrefix + "record.v1"
	typeRollupV1 = typePrefix + "rollup.v1"
)

// upgradeV1 returns the data of a record or a roll-up of version 1 under the names of
// version 2. No name of one version means something else in the other.
func upgradeV1(data json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	for _, name := range [][2]string{
		{"plain", "unhashed"}, {"early", "early_retries"}, {"least", "min_remaining"}, {"every", "sample_one_in"},
		{"watched", "recently_limited"}, {"about", "client_info"}, {"answers", "responses"}, {"answered", "responses"},
		{"arrivals_cut", "arrivals_truncated"}, {"decisive", "decided"},
	} {
		if value, ok := members[name[0]]; ok {
			delete(members, name[0])
			members[name[1]] = value
		}
	}
	if latency, ok := members["latency"]; ok && string(latency) != "null" {
		var err error
		if members["latency"], err = upgradeV1(latency); err != nil {
			return nil, err
		}
	}
	return json.Marshal(members)
}
