package jobfile

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// scalar reads a single value for fd, which the file calls what.
func (d *decoder) scalar(fd protoreflect.FieldDescriptor, what string, node ast.Node) (v protoreflect.Value, ok bool) {
	if u, is := units[fd.FullName()]; is {
		return d.amount(what, u, node)
	}
	switch fd.Kind() {
	case protoreflect.StringKind:
		s, ok := d.text(what, node)
		return protoreflect.ValueOfString(s), ok
	case protoreflect.BytesKind:
		s, ok := d.text(what, node)
		return protoreflect.ValueOfBytes([]byte(s)), ok
	case protoreflect.BoolKind:
		if b, is := node.(*ast.BoolNode); is {
			return protoreflect.ValueOfBool(b.Value), true
		}
		d.problem(node, "%s: expected true or false, found %s", what, kindOf(node))
		return v, false
	case protoreflect.EnumKind:
		return d.enum(fd, what, node)
	case protoreflect.Int32Kind:
		n, ok := d.integer(what, node, math.MinInt32, math.MaxInt32)
		return protoreflect.ValueOfInt32(int32(n)), ok
	case protoreflect.Int64Kind:
		n, ok := d.integer(what, node, math.MinInt64, math.MaxInt64)
		return protoreflect.ValueOfInt64(n), ok
	case protoreflect.Uint32Kind:
		n, ok := d.integer(what, node, 0, math.MaxUint32)
		return protoreflect.ValueOfUint32(uint32(n)), ok
	}
	d.problem(node, "%s cannot be given in a file", what)
	return v, false
}

func (d *decoder) text(what string, node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		d.problem(node, "%s: expected a text, found %s: put it in quotes", what, kindOf(node))
	default:
		d.problem(node, "%s: expected a text, found %s", what, kindOf(node))
	}
	return "", false
}

// octal refuses a number that YAML 1.1 takes for an octal one and YAML 1.2 for a decimal one.
func (d *decoder) octal(what string, n *ast.IntegerNode) bool {
	digits := strings.TrimLeft(n.Token.Value, "+-")
	if len(digits) < 2 || digits[0] != '0' || digits[1] > '9' {
		return false
	}
	d.problem(n, "%s: %s may be read as an octal number: leave the 0 at its beginning out", what, n.Token.Value)
	return true
}

func (d *decoder) integer(what string, node ast.Node, low, high int64) (int64, bool) {
	n, ok := node.(*ast.IntegerNode)
	if !ok && tooLong(node) {
		d.problem(node, "%s: %s is out of range: %d to %d", what, node.GetToken().Value, low, high)
		return 0, false
	}
	if !ok {
		d.problem(node, "%s: expected a whole number, found %s", what, kindOf(node))
		return 0, false
	}
	if d.octal(what, n) {
		return 0, false
	}
	var value int64
	switch v := n.Value.(type) {
	case int64:
		value = v
	case uint64:
		ok = v <= math.MaxInt64
		value = int64(v)
	}
	if !ok || value < low || value > high {
		d.problem(node, "%s: %s is out of range: %d to %d", what, n.Token.Value, low, high)
		return 0, false
	}
	return value, true
}

// tooLong reports a whole number beyond 64 bits, which the parser takes for a text.
func tooLong(node ast.Node) bool {
	n, ok := node.(*ast.StringNode)
	if !ok || n.Token.Type != token.StringType { // in quotes it is a text
		return false
	}
	_, ok = new(big.Int).SetString(n.Value, 10)
	return ok
}

func (d *decoder) enum(fd protoreflect.FieldDescriptor, what string, node ast.Node) (v protoreflect.Value, ok bool) {
	s, ok := d.text(what, node)
	if !ok {
		return v, false
	}
	names := valueNames(fd.Enum())
	i := slices.Index(names, s)
	if i < 0 {
		d.problem(node, "%s: %q is none of %s", what, brief(s), strings.Join(names, ", "))
		return v, false
	}
	return protoreflect.ValueOfEnum(fd.Enum().Values().Get(i + 1).Number()), true
}

// amount reads a number with a unit.
func (d *decoder) amount(what string, u unit, node ast.Node) (v protoreflect.Value, ok bool) {
	var s string
	switch n := node.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.IntegerNode:
		if d.octal(what, n) {
			return v, false
		}
		s = fmt.Sprint(n.Value)
	case *ast.FloatNode:
		s = n.Token.Value
	default:
		d.problem(node, "%s: expected an amount, found %s", what, kindOf(node))
		return v, false
	}
	n, err := u.parse(s)
	if err != nil {
		d.problem(node, "%s: %v", what, err)
		return v, false
	}
	return protoreflect.ValueOfInt64(n), true
}

func isWellKnown(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.MessageKind && fd.Message().ParentFile().Package() == "google.protobuf"
}

// wellKnown reads a duration or a time.
func (d *decoder) wellKnown(fd protoreflect.FieldDescriptor, node ast.Node) (v protoreflect.Value, ok bool) {
	n, is := node.(*ast.StringNode)
	switch fd.Message().Name() {
	case "Duration":
		if is {
			if t, err := time.ParseDuration(n.Value); err == nil {
				return protoreflect.ValueOfMessage(durationpb.New(t).ProtoReflect()), true
			}
		}
		d.problem(node, "%s: expected a duration such as 10s, 1m30s or 2h, found %s", keyOf(fd), kindOf(node))
	case "Timestamp":
		if is {
			if t, err := time.Parse(time.RFC3339, n.Value); err == nil {
				return protoreflect.ValueOfMessage(timestamppb.New(t).ProtoReflect()), true
			}
		}
		d.problem(node, "%s: expected a time such as 2026-05-01T12:00:00Z, found %s", keyOf(fd), kindOf(node))
	default:
		d.problem(node, "%s cannot be given in a file", keyOf(fd))
	}
	return v, false
}
