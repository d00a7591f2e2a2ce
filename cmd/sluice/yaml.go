package main

import (
	"bytes"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// toYAML writes JSON as YAML, keys in their order. Every reader of YAML 1.1 or 1.2 reads the same values, and nothing that a text holds
// reaches a terminal as a control character.
func toYAML(compact []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(compact, &doc); err != nil {
		return nil, err
	}
	if err := restyle(&doc); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	out := yaml.NewEncoder(&b)
	out.SetIndent(2)
	out.CompactSeqIndent()
	if err := out.Encode(&doc); err != nil {
		return nil, err
	}
	return b.Bytes(), out.Close()
}

// restyle has the library choose how what was JSON looks, save for what not all readers take as it does.
func restyle(n *yaml.Node) error {
	unseen := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	n.Style = 0
	switch {
	case n.Tag == "!!str" && (n.Value == "<<" || n.Value == "=" || strings.ContainsFunc(n.Value, unseen)): // the two are more than text in YAML 1.1
		n.Style = yaml.DoubleQuotedStyle
	case n.Tag == "!!str":
		return n.Encode(n.Value)
	case n.Tag == "!!float" && !strings.Contains(n.Value, "."):
		n.Value = strings.Replace(n.Value, "e", ".0e", 1) // without the point it is a text in YAML 1.1
	}
	for _, c := range n.Content {
		if err := restyle(c); err != nil {
			return err
		}
	}
	return nil
}
