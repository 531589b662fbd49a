package analytics

import (
	"strconv"
	"time"
)

const (
	// maxLabels is how many labels are read.
	maxLabels = 10_000
	// usualLabel is how long a label counts if nothing else is said, longestLabel the
	// longest.
	usualLabel   = 90 * 24 * time.Hour
	longestLabel = 5 * 365 * 24 * time.Hour
)

// labelBook is all labels, the newest first.
type labelBook []Label

// labelBook reads the labels of the limits that are meant.
func (r *reader) labelBook() labelBook {
	var out labelBook
	type who struct {
		name
		key string
	}
	newest := map[who]bool{}
	r.query(func(row Row) {
		l := Label{ID: row.Int(0), Domain: row.Text(1), Rule: row.Text(2), Limit: row.Text(3), Key: row.Text(4), Label: row.Text(5),
			Reason: row.Text(6), By: row.Text(7), At: time.Unix(row.Int(8), 0).UTC(), Expires: time.Unix(row.Int(9), 0).UTC()}
		of := who{name{l.Domain, l.Rule, l.Limit}, l.Key}
		l.InForce = !newest[of] && l.Label != "" && l.Expires.After(r.now)
		newest[of] = true
		if oneOf(r.domains, l.Domain) && oneOf(r.rules, l.Rule) && oneOf(r.ask.limits, l.Limit) && oneOf(r.keys, l.Key) {
			out = append(out, l)
		}
	}, `SELECT id, domain, rule, name, client, label, reason, who, at, expires FROM labels ORDER BY id DESC LIMIT `+strconv.Itoa(maxLabels))
	return out
}

// of returns the label that counts for a client, nil if none does.
func (b labelBook) of(n name, key string) *Label {
	for i := range b {
		if l := &b[i]; l.InForce && l.Key == key && (name{l.Domain, l.Rule, l.Limit}) == n {
			return l
		}
	}
	return nil
}

// all returns the labels of a key.
func (b labelBook) all(key string) []Label {
	out := []Label{}
	for _, l := range b {
		if l.Key == key {
			out = append(out, l)
		}
	}
	return out
}

// precision returns how the clients of a limit are labelled, nil if none is.
func (b labelBook) precision(n name) *Precision {
	var p Precision
	for i := range b {
		if l := &b[i]; l.InForce && (name{l.Domain, l.Rule, l.Limit}) == n {
			if l.Label == labelAbusive {
				p.Abusive++
			} else {
				p.Legitimate++
			}
		}
	}
	if p.Abusive+p.Legitimate == 0 {
		return nil
	}
	p.Share = ratio(p.Abusive, p.Abusive+p.Legitimate)
	return &p
}

// Labels.
const (
	labelLegitimate = "legitimate"
	labelAbusive    = "abusive"
)

func reportLabels(r *reader) *LabelList {
	out := &LabelList{Labels: []Label{}}
	for _, l := range r.labelBook() {
		if (!r.inForce || l.InForce) && oneOf(r.ask.labels, l.Label) && len(out.Labels) < r.top {
			out.Labels = append(out.Labels, l)
		}
	}
	return out
}

// check says what is wrong with a request to label a client.
func (q *LabelRequest) check() error {
	for _, w := range []struct {
		name, value string
		most        int
		need        bool
	}{
		{"domain", q.Domain, maxText, false}, {"rule", q.Rule, maxText, false}, {"limit", q.Limit, maxText, true},
		{"key", q.Key, maxText, true}, {"reason", q.Reason, 500, true},
	} {
		switch {
		case len(w.value) > w.most:
			return &paramError{w.name, "has " + strconv.Itoa(len(w.value)) + " bytes: at most " + strconv.Itoa(w.most) + " are kept"}
		case w.need && w.value == "":
			return &paramError{w.name, "is missing"}
		case w.value != text(w.value) && w.name != "reason":
			return &paramError{w.name, "is not text"}
		}
	}
	switch {
	case q.Label != "" && q.Label != labelLegitimate && q.Label != labelAbusive:
		return &paramError{"label", strconv.Quote(text(q.Label)) + " is not known: give legitimate, abusive, or nothing to take one back"}
	case q.Seconds < 0 || q.Seconds > int64(longestLabel.Seconds()):
		return &paramError{"seconds", "must be 1 to " + strconv.FormatInt(int64(longestLabel.Seconds()), 10)}
	}
	return nil
}

// write keeps a label.
func (q *LabelRequest) write(in *statements, by string, now time.Time) *Label {
	if q.Seconds == 0 {
		q.Seconds = int64(usualLabel.Seconds())
	}
	l := &Label{Domain: q.Domain, Rule: q.Rule, Limit: q.Limit, Key: q.Key, Label: q.Label, Reason: longText(q.Reason), By: text(by),
		At: now.Truncate(time.Second).UTC(), Expires: now.Truncate(time.Second).Add(time.Duration(q.Seconds) * time.Second).UTC(), InForce: q.Label != ""}
	in.query(func(r Row) { l.ID = r.Int(0) },
		`INSERT INTO labels (domain, rule, name, client, label, reason, who, at, expires) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING id`,
		l.Domain, l.Rule, l.Limit, l.Key, l.Label, l.Reason, l.By, l.At.Unix(), l.Expires.Unix())
	return l
}
