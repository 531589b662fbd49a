package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/shed"
)

// maxSettings bounds the members of one change: there are fewer to set.
const maxSettings = 64

// shedding answers operators about load shedding, and changes it.
type shedding struct {
	responder *responder
	shed      *shed.Shedder // nil where there is none
	overlay   *overlay.Overlay
	operators *operators
}

func (s *shedding) routes() routes {
	withShed := func(h http.HandlerFunc) http.HandlerFunc {
		return needs(s.shed != nil, "this service runs without load shedding: give its configuration a section shed", h)
	}
	return routes{"/v1/admin/shed": {
		"GET":   withShed(s.responder.sendsValue(func(*http.Request) (any, error) { return s.shed.State(), nil })),
		"PATCH": withShed(s.responder.answers(maxSmallBody, s.changeSettings)),
	}}
}

// changeSettings answers PATCH /v1/admin/shed: it changes the settings that the body names, all or
// none. The response is how they stand then.
func (s *shedding) changeSettings(c *call, r *http.Request) (err error) {
	settings := readSettings(&c.reader)
	if c.reader.err != nil {
		return c.reader.err
	}
	old := s.shed.State().Settings
	if err := s.shed.Set(settings); err != nil {
		return &problem{Status: http.StatusBadRequest, Detail: strings.TrimPrefix(err.Error(), "shed: ")}
	}
	var before, after []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		before, after = append(before, name+"="+old[name]), append(after, name+"="+settings[name])
	}
	s.overlay.Audit.NoteChanges(r.Context(), "load shedding was changed", overlay.Change{Action: "shed", By: s.operators.nameOperator(r),
		Before: strings.Join(before, " "), After: strings.Join(after, " ")})
	c.out, err = encodeJSON(s.shed.State())
	return err
}

// readSettings reads an object of settings by name: text, true or false, or
// whole numbers.
func readSettings(r *reader) map[string]string {
	settings := map[string]string{}
	r.readObject(func(name []byte) {
		key := string(name)
		switch _, again := settings[key]; {
		case again:
			r.failValue("is there twice")
			return
		case len(settings) == maxSettings:
			r.failValue("at most " + strconv.Itoa(maxSettings) + " settings at once; known are " + strings.Join(shed.Settings(), ", "))
			return
		}
		switch c := r.skipSpace(); {
		case c == 't', c == 'f':
			settings[key] = strconv.FormatBool(r.boolean())
		case c == '-', c >= '0' && c <= '9':
			settings[key] = strconv.FormatInt(r.integer(0, 1<<53), 10)
		default:
			settings[key] = strings.Clone(r.readString(1, maxValue))
		}
	})
	r.expectEnd()
	if r.err == nil && len(settings) == 0 {
		r.failValue("names no setting; known are " + strings.Join(shed.Settings(), ", "))
	}
	return settings
}
