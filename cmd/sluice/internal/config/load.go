package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
)

// annotation marks a flag with the key that it sets.
const annotation = "config-key"

// AddFlags gives a command the flags of some keys.
func AddFlags(flags *pflag.FlagSet, keys ...string) {
	all := Settings()
	for _, key := range keys {
		i := slices.IndexFunc(all, func(s Setting) bool { return s.Key == key && s.Flag != "" })
		s := all[i]
		flags.StringP(s.Flag, s.Short, fmt.Sprint(s.Default), s.Usage)
		f := flags.Lookup(s.Flag)
		f.Annotations = map[string][]string{annotation: {key}}
	}
}

// Loaded is a Config with where each value comes from.
type Loaded struct {
	Config
	File string // that was read, "" if none
	// Strays are environment variables that look like those of settings and set none, each with what may have been meant.
	Strays []string
	values []Value
}

// Value is the effective value of one key.
type Value struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"` // "flag --x", "environment SLUICE_X", "file PATH" or "default"
}

// Values lists the effective settings in the order of Settings.
func (l *Loaded) Values() []Value { return l.values }

// CheckCaller says what is wrong with the settings that name the scheduler to call, and what is shown to it. Load does not ask, since
// they may be those of another scheduler where a command calls none.
func (l *Loaded) CheckCaller() error {
	if err := l.validateCaller(); err != nil {
		return l.blame(err)
	}
	return nil
}

// DevLog is the log where people watch: only what matters, if the settings do not say otherwise.
func (l *Loaded) DevLog() Log {
	log := l.Log
	i := slices.IndexFunc(l.values, func(v Value) bool { return v.Key == "log.level" })
	if l.values[i].Source == "default" {
		log.Level = "warn"
	}
	return log
}

// Load reads the settings. file may be "": then the environment variable SLUICE_CONFIG names the file, or else it is
// sluice/config.yaml in the user's configuration folder, if that exists. Of flags, those made by AddFlags and set count.
func Load(file string, flags *pflag.FlagSet) (*Loaded, error) {
	v := viper.New()
	all := Settings()
	for _, s := range all {
		v.SetDefault(s.Key, s.Default)
		if err := v.BindEnv(s.Key, envName(s.Key)); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	path, err := readFile(v, file)
	if err != nil {
		return nil, err
	}
	set := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		if key := f.Annotations[annotation]; len(key) == 1 && f.Changed {
			v.Set(key[0], f.Value.String())
			set[key[0]] = f.Name
		}
	})
	l := &Loaded{File: path, Strays: strays(os.Environ())}
	for _, s := range all {
		source := "default"
		switch {
		case set[s.Key] != "":
			source = "flag --" + set[s.Key]
		case os.Getenv(envName(s.Key)) != "":
			source = "environment " + envName(s.Key)
		case v.InConfig(s.Key):
			source = "file " + path
		}
		l.values = append(l.values, Value{s.Key, fmt.Sprint(v.Get(s.Key)), source})
	}
	var problems []error
	for _, s := range all {
		// Into a value of the default's type, so that an error names the key.
		given := v.Get(s.Key)
		if err := v.UnmarshalKey(s.Key, reflect.New(reflect.TypeOf(s.Default)).Interface()); err != nil || !means(given, s.Default) {
			problems = append(problems, fmt.Errorf("%s: %q is not a value such as %v", s.Key, fmt.Sprint(given), s.Default))
		}
	}
	err = errors.Join(problems...)
	if err == nil {
		err = errors.Join(v.Unmarshal(&l.Config), l.Validate())
	}
	if err != nil {
		return nil, l.blame(err)
	}
	return l, nil
}

// means reports whether a value of a file says what viper would make of it: it takes numbers for nanoseconds and truth, truth
// for numbers, cuts fractions off and joins lists.
func means(given, as any) bool {
	switch as.(type) {
	case time.Duration:
		switch given.(type) {
		case string, time.Duration:
			return true
		}
		return given == 0
	case bool:
		_, number := given.(int)
		return !number
	case int:
		switch n := given.(type) {
		case bool, uint64:
			return false
		case float64:
			return n == math.Trunc(n) && math.Abs(n) < 1<<53
		}
	case string:
		kind := reflect.ValueOf(given).Kind()
		return kind != reflect.Bool && kind != reflect.Slice
	}
	return true
}

// blame adds to an error of Validate where the values come from.
func (l *Loaded) blame(err error) error {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		key, _, _ := strings.Cut(line, ":")
		j := slices.IndexFunc(l.values, func(v Value) bool { return v.Key == key })
		if j >= 0 {
			lines[i] += " (from " + l.values[j].Source + ")"
		}
	}
	return errors.New("config: " + strings.Join(lines, "\nconfig: "))
}

func envName(key string) string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// sections begin the names of variables that only settings have. Kubernetes gives such names to variables of its own in each container, if
// a service is called so: links are their ends.
var (
	sections = regexp.MustCompile(`^SLUICE_(SCHEDULER|DEV|LOCAL|MESOS|LOG|TLS)_`)
	links    = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)$`)
)

// strays returns the variables that set nothing, in the order of their names, though their names begin as those of settings do or are
// next to one. Others may be anybody's.
func strays(environment []string) (out []string) {
	var names []string
	for _, s := range Settings() {
		names = append(names, envName(s.Key))
	}
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "SLUICE_") || slices.Contains(names, name) || links.MatchString(name) {
			continue
		}
		near := jobfile.Nearest(name, names)
		hint := ": `sluice config print` lists the keys"
		if near != "" {
			hint = ": did you mean " + near + "?"
		}
		if sections.MatchString(name) || near != "" && jobfile.Distance(name, near) <= 2 {
			out = append(out, "the environment variable "+name+" sets nothing"+hint)
		}
	}
	slices.Sort(out)
	return out
}

// separators are the lines before the first document in which there is something.
var separators = regexp.MustCompile(`\A(?:(?:[ \t\r]*(?:#.*)?\n)*(?:---|\.\.\.)[ \t\r]*(?:[ \t]#.*)?\n)+`)

// readFile reads the configuration file into v and returns its path, "" if there is none.
func readFile(v *viper.Viper, path string) (string, error) {
	if path == "" {
		path = os.Getenv("SLUICE_CONFIG")
	}
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return "", nil // no home, no file
		}
		path = filepath.Join(dir, "sluice", "config.yaml")
		if _, err := os.Stat(path); err != nil {
			return "", nil
		}
	}
	data, err := os.ReadFile(path) // once: it may be a pipe
	if err != nil {
		return "", fmt.Errorf("config: file %s: %w", path, err)
	}
	if n := jobfile.Documents(data); n > 1 { // of which viper reads the first
		return "", fmt.Errorf("config: file %s: holds %d documents, separated by ---: put all settings into one", path, n)
	}
	if n := len(separators.Find(data)); n > 0 { // viper would read the empty document between two
		data = append(bytes.Repeat([]byte("\n"), bytes.Count(data[:n], []byte("\n"))), data[n:]...)
	}
	own := viper.New()
	for _, x := range []*viper.Viper{own, v} {
		x.SetConfigType("yaml")
		if err := x.ReadConfig(bytes.NewReader(data)); err != nil {
			return "", fmt.Errorf("config: file %s: %w", path, err)
		}
	}
	return path, unknown(path, own)
}

// nearest returns the key that may have been meant, "" if none is near: of a section that there is, by what follows its name.
func nearest(key string, keys []string) string {
	section := key[:strings.LastIndex(key, ".")+1]
	var within []string
	for _, k := range keys {
		if rest, ok := strings.CutPrefix(k, section); ok {
			within = append(within, rest)
		}
	}
	if len(within) == 0 {
		return jobfile.Nearest(key, keys)
	}
	if near := jobfile.Nearest(key[len(section):], within); near != "" {
		return section + near
	}
	return ""
}

func unknown(path string, file *viper.Viper) error {
	given := file.AllKeys()
	var keys []string
	for _, s := range Settings() {
		keys = append(keys, s.Key)
	}
	slices.Sort(given)
	var problems []error
	for _, key := range given {
		if slices.Contains(keys, key) {
			continue
		}
		if slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, key+".") }) {
			if file.Get(key) != nil { // else all that it holds is commented out
				problems = append(problems, fmt.Errorf("config: file %s: %s: %q is not keys with values", path, key, fmt.Sprint(file.Get(key))))
			}
			continue
		}
		hint := ": `sluice config print` lists the keys"
		if near := nearest(key, keys); near != "" {
			hint = fmt.Sprintf(": did you mean %q?", near)
		}
		problems = append(problems, fmt.Errorf("config: file %s: unknown key %q%s", path, key, hint))
	}
	return errors.Join(problems...)
}
