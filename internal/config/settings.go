package config

import (
	"encoding"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Setting is one leaf of [Config] as a user meets it.
type Setting struct {
	// Key is its path in the configuration file, "http.listen".
	Key string
	// Flag is its name on the command line, without dashes. Empty where it has none.
	Flag string
	// OldFlag is the name of its flag in earlier versions, empty if it had no other.
	OldFlag string
	// Default is its value when none is given, in the form of the flag.
	Default string
	// Placeholder stands for its value in usage lines.
	Placeholder string
	// Help says what it does.
	Help string
	// name is what its environment variable is named after: its flag, or the one that it had.
	name   string
	bounds bounds
}

// Env returns the environment variable of the setting, empty where it is in the
// configuration file alone.
func (s Setting) Env() string { return envVariable(s.name) }

// OldEnv returns the environment variable of earlier versions, empty if it had no other.
func (s Setting) OldEnv() string { return envVariable(s.OldFlag) }

func envVariable(name string) string {
	if name == "" {
		return ""
	}
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// FindMoved returns the setting whose flag in earlier versions was oldFlag.
func FindMoved(oldFlag string) (Setting, bool) {
	for _, s := range Settings() {
		if oldFlag != "" && (s.OldFlag == oldFlag || s.Flag == "" && s.name == oldFlag) {
			return s, true
		}
	}
	return Setting{}, false
}

// Summarize returns the first sentence of the help of a setting.
func Summarize(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(first, ".")
}

// Settings lists every setting, in the order of [Config].
func Settings() []Setting {
	var out []Setting
	walkLeaves(reflect.ValueOf(new(Config)).Elem(), "", "", func(s Setting, _ reflect.Value) {
		out = append(out, s)
	})
	return out
}

// Defaults returns the configuration that nobody has touched.
func Defaults() *Config {
	c := new(Config)
	walkLeaves(reflect.ValueOf(c).Elem(), "", "", setDefault)
	return c
}

func setDefault(s Setting, v reflect.Value) {
	if s.Default == "" {
		return
	}
	if err := setText(v, s.Default); err != nil {
		panic(fmt.Sprintf("config: default of %s: %v", s.Key, err))
	}
}

// readVariables sets the settings of the struct that section points to which have no flag,
// by their environment variables.
func readVariables(section any) error {
	var errs []error
	walkLeaves(reflect.ValueOf(section).Elem(), "", "", func(s Setting, v reflect.Value) {
		if s.Flag != "" || s.name == "" {
			return
		}
		if text, ok := os.LookupEnv(s.Env()); ok {
			if err := setText(v, text); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", s.Env(), err))
			}
		}
	})
	return errors.Join(errs...)
}

// walkLeaves calls visit for every leaf of the struct v.
func walkLeaves(v reflect.Value, key, prefix string, visit func(Setting, reflect.Value)) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		path := key + f.Tag.Get("yaml")
		if f.Type == reflect.TypeFor[[]Route]() || f.Type.Kind() == reflect.Pointer {
			continue // no leaf: routes, shed
		}
		if _, section := f.Tag.Lookup("embed"); section {
			walkLeaves(v.Field(i), path+".", prefix+f.Tag.Get("prefix"), visit)
			continue
		}
		name := f.Tag.Get("name")
		if name != "" {
			name = prefix + name
		}
		flag := name
		if f.Tag.Get("kong") == "-" {
			flag = ""
		}
		visit(Setting{
			Key:         path,
			Flag:        flag,
			name:        name,
			OldFlag:     f.Tag.Get("was"),
			Default:     f.Tag.Get("default"),
			Placeholder: placeholder(f),
			Help:        strings.ReplaceAll(f.Tag.Get("help"), "${enum}", strings.ReplaceAll(f.Tag.Get("enum"), ",", ", ")),
			bounds:      boundsOf(f.Tag),
		}, v.Field(i))
	}
}

func placeholder(f reflect.StructField) string {
	if p := f.Tag.Get("placeholder"); p != "" {
		return p
	}
	return strings.ReplaceAll(f.Tag.Get("enum"), ",", "|")
}

// setText sets the leaf v from its form as a flag.
func setText(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Interface().(type) {
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 500ms, 10s or 5m", text)
		}
		v.SetInt(int64(d))
		return nil
	case string, Secret:
		v.SetString(text)
		return nil
	case []string:
		v.Set(reflect.ValueOf(strings.Split(text, ",")))
		return nil
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(b)
		return nil
	case int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		v.SetInt(n)
		return nil
	}
	panic(fmt.Sprintf("config: no setting can be a %s", v.Type()))
}

// bounds are those that the tags of a setting give: least and most, within which it
// must be, and beside them or, one more value; or positive, for a duration without
// which a client could hold what it likes for ever.
type bounds struct {
	least, most, or string
	positive        bool
}

func boundsOf(tag reflect.StructTag) bounds {
	_, positive := tag.Lookup("positive")
	return bounds{tag.Get("least"), tag.Get("most"), tag.Get("or"), positive}
}
