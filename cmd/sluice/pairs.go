package main

import (
	"encoding/csv"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// addPairs adds a flag for pairs KEY=VALUE, several times or joined by commas, of which none says what another one says already.
func addPairs(f *pflag.FlagSet, to *map[string]string, name, usage string) {
	f.StringToStringVar(to, name, nil, usage)
	flag := f.Lookup(name)
	flag.Value, flag.DefValue = &pairs{Value: flag.Value, given: map[string]bool{}}, ""
}

// pairs is the value of a flag for pairs.
type pairs struct {
	pflag.Value
	given map[string]bool // keys
}

// Set implements [pflag.Value].
func (p *pairs) Set(text string) error {
	if err := p.Value.Set(text); err != nil {
		return err
	}
	list := []string{strings.Trim(text, `"`)} // one pair may have commas in it
	if strings.Count(text, "=") > 1 {
		list, _ = csv.NewReader(strings.NewReader(text)).Read() // has been read once
	}
	for _, pair := range list {
		key, _, _ := strings.Cut(pair, "=")
		if p.given[key] {
			return fmt.Errorf("%s is given twice", key)
		}
		p.given[key] = true
	}
	return nil
}
