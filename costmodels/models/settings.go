package models

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sluice-scheduler/sluice/costmodels"
)

// configure returns the model with the settings in its fields. The key of a field is its name in lower case with
// underscores. Unknown and repeated keys, values of the wrong form and what the model itself refuses are errors.
func configure(m costmodels.Model, settings string) (costmodels.Model, error) {
	v := reflect.New(reflect.TypeOf(m)).Elem()
	v.Set(reflect.ValueOf(m))
	var seen []string
	for setting := range strings.SplitSeq(settings, ",") {
		if setting = strings.TrimSpace(setting); setting == "" {
			continue
		}
		key, value, ok := strings.Cut(setting, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok {
			return nil, fmt.Errorf("%q is no setting: write key=value", setting)
		}
		i := slices.Index(keysOf(v.Type()), key)
		if i < 0 {
			there := cmp.Or(strings.Join(keysOf(v.Type()), ", "), "none")
			return nil, fmt.Errorf("no setting %q; there are: %s", key, there)
		}
		if slices.Contains(seen, key) {
			return nil, fmt.Errorf("%s is set twice", key)
		}
		seen = append(seen, key)
		if err := set(v.Field(i), value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	made := v.Interface().(costmodels.Model)
	if c, ok := made.(interface{ Validate() error }); ok {
		if err := c.Validate(); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// keysOf returns the keys of a model's settings in the order of its fields.
func keysOf(t reflect.Type) []string {
	keys := make([]string, t.NumField())
	for i := range keys {
		for j, r := range t.Field(i).Name {
			if unicode.IsUpper(r) && j > 0 {
				keys[i] += "_"
			}
			keys[i] += string(unicode.ToLower(r))
		}
	}
	return keys
}

// set reads a value into a field: a whole number above zero, a duration, a word, or a list of words. Zero stands for the
// default in every model, so nobody may ask for it.
func set(field reflect.Value, value string) error {
	switch p := field.Addr().Interface().(type) {
	case *time.Duration:
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is no duration above 0s, such as 90s or 10m", value)
		}
		*p = d
		return nil
	case *[]string:
		if *p = strings.Fields(value); len(*p) == 0 {
			return fmt.Errorf("an empty list: leave the setting out")
		}
		return nil
	case *string:
		if *p = value; value == "" {
			return fmt.Errorf("an empty word: leave the setting out")
		}
		return nil
	}
	n, err := strconv.ParseUint(value, 10, 62)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is no whole number above 0", value)
	}
	if field.CanUint() {
		field.SetUint(n)
	} else {
		field.SetInt(int64(n))
	}
	return nil
}
