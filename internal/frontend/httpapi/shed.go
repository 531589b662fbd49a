package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/shed"
)

// maxSettings bounds the members of one change: there are fewer to set.
const maxSettings = 64

// shedState answers GET /v1/admin/shed.
func (a *API) shedState(w http.ResponseWriter, _ *http.Request) {
	a.sendValue(w, a.opt.Shed.State())
}

// setShed answers PATCH /v1/admin/shed: it changes the settings that the body
// names, all or none, and tells how things stand then.
func (a *API) setShed(c *call, w http.ResponseWriter, r *http.Request) error {
	settings := readSettings(&c.reader)
	if c.reader.err != nil {
		return c.reader.err
	}
	before := a.opt.Shed.State().Settings
	if err := a.opt.Shed.Set(settings); err != nil {
		answer.Problem{Status: http.StatusBadRequest, Detail: strings.TrimPrefix(err.Error(), "shed: ")}.Write(w)
		return nil
	}
	a.noteShed(r, before, settings)
	a.sendValue(w, a.opt.Shed.State())
	return nil
}

// noteShed logs that settings were changed, and writes it down where that is kept.
func (a *API) noteShed(r *http.Request, before, settings map[string]string) {
	const what = "load shedding was changed"
	if a.opt.Overlay == nil {
		a.opt.Log.Warn(what, "settings", settings, "by", a.who(r))
		return
	}
	var was, is []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		was, is = append(was, name+"="+before[name]), append(is, name+"="+settings[name])
	}
	a.opt.Overlay.Note(r.Context(), what, overlay.Change{Action: "shed", By: a.who(r), Before: strings.Join(was, " "), After: strings.Join(is, " ")})
}

// readSettings reads an object of settings by name: text, true or false, or
// whole numbers.
func readSettings(r *reader) map[string]string {
	settings := map[string]string{}
	r.object(func(name []byte) {
		key := string(name)
		switch _, again := settings[key]; {
		case again:
			r.fail("is there twice")
			return
		case len(settings) == maxSettings:
			r.fail("at most " + strconv.Itoa(maxSettings) + " settings at once; known are " + strings.Join(shed.Settings(), ", "))
			return
		}
		switch c := r.space(); {
		case c == 't', c == 'f':
			settings[key] = strconv.FormatBool(r.boolean())
		case c == '-', c >= '0' && c <= '9':
			settings[key] = strconv.FormatInt(r.integer(0, 1<<53), 10)
		default:
			settings[key] = strings.Clone(r.str(1, maxValue))
		}
	})
	r.end()
	if r.err == nil && len(settings) == 0 {
		r.fail("names no setting; known are " + strings.Join(shed.Settings(), ", "))
	}
	return settings
}
