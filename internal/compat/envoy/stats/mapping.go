package stats

import (
	_ "embed"
	"log/slog"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed mapping.yaml
var mappingText string

// defaultMapping returns the mapping that counts when no file is named.
func defaultMapping(milliseconds bool) string {
	if milliseconds {
		return strings.Replace(mappingText, "  scale: 0.001\n", "", 1)
	}
	return mappingText
}

// The keys that a mapping file may hold, at each place.
var (
	mappingTop      = words("defaults mappings")
	mappingDefaults = words("observer_type match_type glob_disable_ordering ttl summary_options histogram_options")
	mappingItem     = words("match name labels honor_labels observer_type match_type help action match_metric_type ttl summary_options histogram_options scale")
	mappingSummary  = words("quantiles max_age age_buckets buf_cap")
	mappingHist     = words("buckets native_histogram_bucket_factor native_histogram_max_buckets")
)

func words(list string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		m[w] = true
	}
	return m
}

// modernizeMapping rewrites a mapping file of older days, which are those of most files
// about: timer_type is observer_type now, buckets and quantiles have moved, and
// keys that mean nothing are an error instead of nothing.
func modernizeMapping(file []byte, log *slog.Logger) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(file, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	top := doc.Content[0]
	keepKnown(top, mappingTop, log)
	for _, d := range values(top, "defaults") {
		modernizeBlock(d, mappingDefaults, log)
	}
	for _, list := range values(top, "mappings") {
		for _, item := range list.Content {
			modernizeBlock(item, mappingItem, log)
		}
	}
	return yaml.Marshal(&doc)
}

func modernizeBlock(m *yaml.Node, known map[string]bool, log *slog.Logger) {
	if m.Kind == yaml.AliasNode {
		m = m.Alias
	}
	if m.Kind != yaml.MappingNode {
		return
	}
	if old := takeKey(m, "timer_type"); old != nil && len(values(m, "observer_type")) == 0 {
		appendPair(m, "observer_type", old)
	}
	moveKey(m, "buckets", "histogram_options")
	moveKey(m, "quantiles", "summary_options")
	keepKnown(m, known, log)
	for _, o := range values(m, "summary_options") {
		keepKnown(o, mappingSummary, log)
	}
	for _, o := range values(m, "histogram_options") {
		keepKnown(o, mappingHist, log)
	}
}

// moveKey puts m[key] into the block m[into], unless it is there.
func moveKey(m *yaml.Node, key, into string) {
	old := takeKey(m, key)
	if old == nil {
		return
	}
	blocks := values(m, into)
	if len(blocks) == 0 {
		block := &yaml.Node{Kind: yaml.MappingNode}
		appendPair(m, into, block)
		blocks = []*yaml.Node{block}
	}
	if len(values(blocks[0], key)) == 0 {
		appendPair(blocks[0], key, old)
	}
}

// values returns m[key], one or none.
func values(m *yaml.Node, key string) []*yaml.Node {
	if m.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(m.Content); i += 2 {
			if m.Content[i].Value == key {
				return m.Content[i+1 : i+2]
			}
		}
	}
	return nil
}

// takeKey removes and returns m[key].
func takeKey(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			v := m.Content[i+1]
			m.Content = append(m.Content[:i:i], m.Content[i+2:]...)
			return v
		}
	}
	return nil
}

func appendPair(m *yaml.Node, key string, v *yaml.Node) {
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, v)
}

// keepKnown removes what is not known, and of keys that are there twice the first.
func keepKnown(m *yaml.Node, known map[string]bool, log *slog.Logger) {
	if m.Kind != yaml.MappingNode {
		return
	}
	last := map[string]int{}
	for i := 0; i+1 < len(m.Content); i += 2 {
		last[m.Content[i].Value] = i
	}
	var kept []*yaml.Node
	for i := 0; i+1 < len(m.Content); i += 2 {
		key := m.Content[i]
		switch {
		case key.Tag != "!!merge" && !known[key.Value]:
			log.Warn("unknown key in the Prometheus mapping ignored", "key", key.Value, "line", key.Line)
		case last[key.Value] == i:
			kept = append(kept, key, m.Content[i+1])
		}
	}
	m.Content = kept
}
