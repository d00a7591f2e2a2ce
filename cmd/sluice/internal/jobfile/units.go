package jobfile

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// unit says how a file spells a field whose name carries a unit.
type unit struct {
	key    string
	parse  func(string) (int64, error)
	format func(int64) string // what parse reads, as short as it can be
}

// units lists every field with a unit in its name that a file may hold.
var units = map[protoreflect.FullName]unit{
	"sluice.v1.ResourceRequest.cpu_milli":                {"cpu", ParseMilli, formatMilli},
	"sluice.v1.ResourceRequest.memory_bytes":             {"memory", ParseBytes, formatBytes},
	"sluice.v1.ResourceRequest.disk_bytes":               {"disk", ParseBytes, formatBytes},
	"sluice.v1.ResourceRequest.network_bytes_per_second": {"network_per_second", ParseBytes, formatBytes},
	"sluice.v1.ContainerSpec.image_bytes":                {"image_size", ParseBytes, formatBytes},
	"sluice.v1.DataInput.bytes":                          {"size", ParseBytes, formatBytes},
	"sluice.v1.VolumeMount.scratch_bytes":                {"scratch", ParseBytes, formatBytes},
	"sluice.v1.TaskSpec.log_limit_bytes":                 {"log_limit", ParseBytes, formatBytes},
}

// dimension says how a file gives a fixed dimension of a pool, and amounts of it: as a job gives what a task asks for. Its own name is
// taken as well, and then amounts are in the unit of that.
type dimension struct {
	name string
	unit
}

// dimensions are the fixed ones. Amounts of others are whole numbers.
var dimensions = []dimension{
	{"cpu_milli", units["sluice.v1.ResourceRequest.cpu_milli"]},
	{"memory_bytes", units["sluice.v1.ResourceRequest.memory_bytes"]},
	{"disk_bytes", units["sluice.v1.ResourceRequest.disk_bytes"]},
	{"gpu_milli", unit{"gpu", ParseMilli, formatMilli}}, // a job asks for devices
	{"network_bytes_per_second", units["sluice.v1.ResourceRequest.network_bytes_per_second"]},
}

// The message that names a dimension, its field for that, and those that are amounts of it.
const (
	dimensioned     = "sluice.v1.PoolResource"
	dimensionField  = dimensioned + ".dimension"
	reservationHere = dimensioned + ".reservation"
	limitHere       = dimensioned + ".limit"
)

func isAmountOfDimension(fd protoreflect.FieldDescriptor) bool {
	return fd.FullName() == reservationHere || fd.FullName() == limitHere
}

// dimensionOf returns the fixed dimension that has the name, or that a file calls so; nil if there is none.
func dimensionOf(word string) *dimension {
	for _, d := range dimensions {
		switch word {
		case d.key:
			return &d
		case d.name:
			if strings.HasSuffix(d.name, "_milli") { // in which 2 and 2.5 would be thousandths and whole ones
				key := d.key
				d.parse = func(s string) (int64, error) {
					n, err := strconv.ParseInt(s, 10, 64)
					if err != nil {
						err = fmt.Errorf("%q is not a whole number of thousandths: with `dimension: %s` it may be 2, 0.5 or 500m", brief(s), key)
					}
					return n, err
				}
			}
			return &d
		}
	}
	return nil
}

var (
	number   = regexp.MustCompile(`^([+-]?[0-9]{1,25}(?:\.[0-9]{1,25})?)([A-Za-z]*)$`)
	errRange = errors.New("is out of range")
)

// ParseMilli reads an amount in thousandths: "500m", "0.5", "2". Nothing is rounded.
func ParseMilli(s string) (int64, error) {
	m := number.FindStringSubmatch(s)
	if m == nil || m[2] != "" && m[2] != "m" {
		return 0, fmt.Errorf("%q is not an amount such as 2, 0.5 or 500m", s)
	}
	scale := int64(1000)
	if m[2] == "m" {
		scale = 1
	}
	return whole(s, m[1], scale, "finer than a thousandth")
}

func formatMilli(n int64) string {
	if n%1000 == 0 {
		return strconv.FormatInt(n/1000, 10)
	}
	return strconv.FormatInt(n, 10) + "m"
}

var byteScales = map[string]int64{
	"":  1,
	"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50,
}

// ParseBytes reads an amount of bytes: "64Mi" (1024-based: Ki Mi Gi Ti Pi), "64M" (1000-based: k M G T P), "65536".
// Nothing is rounded.
func ParseBytes(s string) (int64, error) {
	m := number.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not a size such as 64Mi, 1.5Gi or 65536", s)
	}
	scale, ok := byteScales[m[2]]
	if !ok {
		return 0, fmt.Errorf("%q: unknown unit %q: use Ki, Mi, Gi, Ti, Pi or k, M, G, T, P", s, m[2])
	}
	return whole(s, m[1], scale, "not a whole number of bytes")
}

func formatBytes(n int64) string {
	best, name := int64(1), ""
	for unit, scale := range byteScales { // in any order: scales differ
		if scale > best && n != 0 && n%scale == 0 {
			best, name = scale, unit
		}
	}
	return strconv.FormatInt(n/best, 10) + name
}

func whole(s, digits string, scale int64, inexact string) (int64, error) {
	r, ok := new(big.Rat).SetString(strings.TrimPrefix(digits, "+"))
	if !ok {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	r.Mul(r, new(big.Rat).SetInt64(scale))
	switch {
	case !r.IsInt():
		return 0, fmt.Errorf("%q is %s", s, inexact)
	case !r.Num().IsInt64():
		return 0, fmt.Errorf("%q %w", s, errRange)
	}
	return r.Num().Int64(), nil
}
