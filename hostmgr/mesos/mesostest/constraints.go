package mesostest

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

// constraints are a framework's offer constraints by role. The generated messages are older than they are, so they are
// read from JSON only.
type constraints map[string]struct {
	Groups []struct {
		Attributes []struct {
			Selector struct {
				Attribute string `json:"attribute_name"`
				Pseudo    string `json:"pseudoattribute_type"`
			} `json:"selector"`
			Predicate struct {
				Exists     *struct{}  `json:"exists"`
				NotExists  *struct{}  `json:"not_exists"`
				Equals     *textValue `json:"text_equals"`
				NotEquals  *textValue `json:"text_not_equals"`
				Matches    *regexText `json:"text_matches"`
				NotMatches *regexText `json:"text_not_matches"`
			} `json:"predicate"`
		} `json:"attribute_constraints"`
	} `json:"groups"`
}

type textValue struct {
	Value string `json:"value"`
}

type regexText struct {
	Regex string `json:"regex"`
}

// readConstraints takes the constraints out of the parsed call, nil if it has none.
func readConstraints(raw map[string]any, field string) (constraints, error) {
	call, _ := raw[field].(map[string]any)
	limits, ok := call["offer_constraints"].(map[string]any)
	if !ok {
		return nil, nil
	}
	text, err := json.Marshal(limits["role_constraints"])
	if err != nil {
		return nil, err
	}
	var out constraints
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, refuse("Offer constraints are not valid: %s", err)
	}
	return out, nil
}

func (c constraints) validate(roles []string) error {
	for _, role := range slices.Sorted(maps.Keys(c)) {
		if !slices.Contains(roles, role) {
			return refuse("Offer constraints specify `role_constraints` for a role '%s'not contained in the set of roles", role)
		}
		for _, group := range c[role].Groups {
			for _, a := range group.Attributes {
				for _, r := range []*regexText{a.Predicate.Matches, a.Predicate.NotMatches} {
					if r == nil {
						continue
					}
					if _, err := regexp.Compile(r.Regex); err != nil {
						return refuse("Offer constraints are not valid: A role %s has an invalid 'AttributeConstraint': "+
							"Failed to construct regex from pattern '%s': %s", role, r.Regex, err)
					}
				}
			}
		}
	}
	return nil
}

// admit tells whether the agent may be offered to the role: one of its groups holds, or there is none.
func (c constraints) admit(role string, a *agent) bool {
	groups := c[role].Groups
	if len(groups) == 0 {
		return true
	}
	for _, group := range groups {
		holds := true
		for _, want := range group.Attributes {
			value, ok := a.spec.Attributes[want.Selector.Attribute]
			if want.Selector.Pseudo == "HOSTNAME" {
				value, ok = a.spec.Hostname, true
			}
			p := want.Predicate
			holds = holds &&
				(p.Exists == nil || ok) && (p.NotExists == nil || !ok) &&
				(p.Equals == nil || ok && value == p.Equals.Value) &&
				(p.NotEquals == nil || !ok || value != p.NotEquals.Value) &&
				(p.Matches == nil || ok && matches(p.Matches.Regex, value)) &&
				(p.NotMatches == nil || !ok || !matches(p.NotMatches.Regex, value))
		}
		if holds {
			return true
		}
	}
	return false
}

func matches(pattern, value string) bool {
	ok, err := regexp.MatchString("^(?:"+pattern+")$", value)
	return err == nil && ok
}
