package serve

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Bounds of what a request may contain. Those of jobs as such are in package cluster.
const (
	maxNameLength        = 100
	maxHostLength        = maxNameLength + len("/") + 255 // of a host with its shard
	maxKeyLength         = cluster.MaxKey
	maxLabelValue        = 255
	maxLabels            = 64
	maxOwner             = 255
	maxIdempotencyKey    = 128
	maxReason            = 1000
	maxPoolDepth         = 16
	maxFilterNames       = 1000
	maxGraphJobs         = 1000
	maxGraphInstances    = 1_000_000
	maxSpecBytes         = 1 << 20
	maxArgument          = 128<<10 - 1 // a longer one cannot be passed to a process on Linux
	maxConstraintDepth   = 16
	maxConstraintOperand = 256
	minLogLimit          = 4 << 10
	maxLogLimit          = 1 << 40
	maxPageSize          = 1000
	defaultPageSize      = 100
)

// The rules for names, as they are told to users.
var (
	nameRule = fmt.Sprintf("1 to %d characters of a-z, 0-9, '-', '_' and '.', beginning and ending with a letter or a digit",
		maxNameLength)
	keyRule = fmt.Sprintf("1 to %d characters of letters, digits, '-', '_', '.' and '/'", maxKeyLength)
	// poolRule holds for each part of a path.
	poolRule = fmt.Sprintf("1 to %d characters of a-z, 0-9, '-' and '_', beginning with a letter or a digit", maxKeyLength)
)

func isLowerAlnum(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

func isName(s string) bool {
	if s == "" || len(s) > maxNameLength || !isLowerAlnum(s[0]) || !isLowerAlnum(s[len(s)-1]) {
		return false
	}
	return consists(s, "-_.")
}

// consists reports whether s has lower-case letters, digits and the given other characters only.
func consists(s, others string) bool {
	for i := range len(s) {
		if !isLowerAlnum(s[i]) && strings.IndexByte(others, s[i]) < 0 {
			return false
		}
	}
	return true
}

// isText reports whether s is free of control characters, which would garble tables and logs.
func isText(s string) bool { return strings.IndexFunc(s, unicode.IsControl) < 0 }

// checkName reports a job name that is missing or breaks the rule. path is the field's.
func checkName(name, path string, v *violations) {
	switch {
	case name == "":
		v.Invalid(path, "is required: %s", nameRule)
	case len(name) > maxNameLength:
		v.Invalid(path, "is %d characters long: %s", len(name), nameRule)
	case !isName(name):
		v.Invalid(path, "is %s: %s", quote(name), nameRule)
	}
}

// checkText reports text that is too long or contains control characters.
func checkText(s, path string, limit int, v *violations) {
	switch {
	case len(s) > limit:
		v.Invalid(path, "is %d bytes long: at most %d", len(s), limit)
	case !isText(s):
		v.Invalid(path, "contains control characters: %s", quote(s))
	}
}

// checkPoolPath reports a path that cannot name a pool, and whether it can.
func checkPoolPath(p, path string, v *violations) bool {
	parts := strings.Split(p, "/")
	switch {
	case p == "":
		v.Invalid(path, `is required: a path from the root, such as "root/batch"`)
	case parts[0] != string(cluster.RootPool):
		v.Invalid(path, `is %s: paths begin with "root"`, quote(p))
	case len(parts) > maxPoolDepth:
		v.Invalid(path, "has %d parts: at most %d", len(parts), maxPoolDepth)
	default:
		for _, part := range parts {
			if part == "" || len(part) > maxKeyLength || !isLowerAlnum(part[0]) || !consists(part, "-_") {
				v.Invalid(path, "has a part %s: %s", quote(part), poolRule)
				return false
			}
		}
		return true
	}
	return false
}

// checkRange reports a number outside lo..hi; unit explains it and may be empty.
func checkRange(n, lo, hi int64, unit, path string, v *violations) {
	if n >= lo && n <= hi {
		return
	}
	if unit != "" {
		unit = " (" + unit + ")"
	}
	v.Invalid(path, "is %d: %d to %d%s", n, lo, hi, unit)
}
