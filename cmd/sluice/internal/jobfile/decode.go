package jobfile

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// decoder fills messages from nodes and collects what is wrong.
type decoder struct {
	file     string
	problems []error
}

func (d *decoder) problem(at ast.Node, format string, args ...any) {
	if len(d.problems) >= maxProblems {
		return
	}
	pos := at.GetToken().Position
	d.problems = append(d.problems, &Problem{d.file, pos.Line, pos.Column, fmt.Sprintf(format, args...)})
}

// message fills m from a mapping, or from a list where m holds nothing but a list. what names the node to people, here and below:
// it is the key that stands before it in the file.
func (d *decoder) message(m protoreflect.Message, what string, node ast.Node, depth int) {
	if depth > MaxDepth {
		d.problem(node, "lies deeper than %d levels", MaxDepth)
		return
	}
	if fd := onlyList(m.Descriptor()); fd != nil {
		d.list(m, fd, what, node, depth)
		return
	}
	pairs, ok := d.mapping(node, what)
	if !ok {
		return
	}
	schema := schemaOf(m.Descriptor())
	if depth == 0 && d.answer(schema, pairs) {
		return
	}
	in := dimensionAmong(m, pairs)
	for _, p := range pairs {
		key, ok := d.key(p)
		if !ok {
			continue
		}
		fd, known := schema.fields[key]
		if !known {
			d.problem(p.Key, "unknown key %q%s", brief(key), schema.suggest(key))
			continue
		}
		if one := fd.ContainingOneof(); one != nil && m.WhichOneof(one) != nil {
			d.problem(p.Key, "%q and %q exclude each other: give one", keyOf(m.WhichOneof(one)), key)
			continue
		}
		switch {
		case in != nil && fd.FullName() == dimensionField:
			m.Set(fd, protoreflect.ValueOfString(in.name))
		case in != nil && isAmountOfDimension(fd):
			if d.refused(p.Value) {
				continue
			}
			if v, ok := d.amount(key, in.unit, p.Value); ok {
				m.Set(fd, v)
			}
		default:
			d.field(m, fd, p.Value, depth)
		}
	}
}

// dimensionAmong returns the fixed dimension of which a message gives amounts, nil if it gives none of one.
func dimensionAmong(m protoreflect.Message, pairs []*ast.MappingValueNode) *dimension {
	if m.Descriptor().FullName() != dimensioned {
		return nil
	}
	for _, p := range pairs {
		k, _ := p.Key.(*ast.StringNode)
		v, ok := p.Value.(*ast.StringNode)
		if ok && k != nil && k.Value == "dimension" {
			return dimensionOf(v.Value)
		}
	}
	return nil
}

// answer reports, as one problem, a document that is what `get -o yaml` prints, with a state beside the spec: none of its keys are of a
// file, save the name.
func (d *decoder) answer(of schema, pairs []*ast.MappingValueNode) bool {
	keys := map[string]ast.Node{}
	for _, p := range pairs {
		if k, ok := p.Key.(*ast.StringNode); ok && of.fields[k.Value] == nil {
			keys[k.Value] = p.Key
		}
	}
	if keys["spec"] == nil || keys["state"] == nil {
		return false
	}
	d.problem(keys["spec"], `this is an answer of the scheduler, as "get -o yaml" prints it: "job file" and "pool file" print files`)
	return true
}

// field sets one field of m.
func (d *decoder) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, node ast.Node, depth int) {
	switch {
	case d.refused(node):
	case fd.IsMap():
		d.mapField(m, fd, node)
	case fd.IsList():
		d.list(m, fd, keyOf(fd), node, depth)
	case isWellKnown(fd):
		if v, ok := d.wellKnown(fd, node); ok {
			m.Set(fd, v)
		}
	case fd.Kind() == protoreflect.MessageKind:
		d.message(m.Mutable(fd).Message(), keyOf(fd), node, depth+1)
	default:
		if v, ok := d.scalar(fd, keyOf(fd), node); ok {
			m.Set(fd, v)
		}
	}
}

func (d *decoder) list(m protoreflect.Message, fd protoreflect.FieldDescriptor, what string, node ast.Node, depth int) {
	if d.refused(node) {
		return
	}
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		d.problem(node, "%s: expected a list, found %s", what, kindOf(node))
		return
	}
	list := m.Mutable(fd).List()
	for _, item := range seq.Values {
		if d.refused(item) {
			continue
		}
		if fd.Kind() == protoreflect.MessageKind {
			d.message(list.AppendMutable().Message(), what, item, depth+1)
		} else if v, ok := d.scalar(fd, what, item); ok {
			list.Append(v)
		}
	}
}

func (d *decoder) mapField(m protoreflect.Message, fd protoreflect.FieldDescriptor, node ast.Node) {
	pairs, ok := d.mapping(node, keyOf(fd))
	if !ok {
		return
	}
	into := m.Mutable(fd).Map()
	for _, p := range pairs {
		key, ok := d.key(p)
		if !ok || d.refused(p.Value) {
			continue
		}
		if v, ok := d.scalar(fd.MapValue(), key, p.Value); ok {
			into.Set(protoreflect.ValueOfString(key).MapKey(), v)
		}
	}
}

func (d *decoder) mapping(node ast.Node, what string) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	if !d.refused(node) {
		d.problem(node, "%s: expected keys with values, found %s", what, kindOf(node))
	}
	return nil, false
}

func (d *decoder) key(p *ast.MappingValueNode) (string, bool) {
	switch k := p.Key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.MergeKeyNode:
		d.problem(k, "merge keys are not supported: write the values out")
	default:
		d.problem(p.Key, "a key has to be a text: put it in quotes")
	}
	return "", false
}

// refused reports nodes that no field takes.
func (d *decoder) refused(node ast.Node) bool {
	switch node.(type) {
	case *ast.NullNode:
		d.problem(node, "has no value: give one or remove the key")
	case *ast.AnchorNode, *ast.AliasNode:
		d.problem(node, "anchors and aliases are not supported: write the value out")
	case *ast.TagNode:
		d.problem(node, "tags are not supported: write the plain value")
	default:
		return false
	}
	return true
}

// brief is the beginning of a text that is too long to be quoted in a message, as that of a file that is none of ours.
func brief(text string) string {
	if runes := []rune(text); len(runes) > maxQuoted {
		return string(runes[:maxQuoted-1]) + "…"
	}
	return text
}

// kindOf names a node's kind for people.
func kindOf(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys with values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + node.GetToken().Value
	case *ast.BoolNode:
		return node.GetToken().Value
	case *ast.StringNode:
		return fmt.Sprintf("the text %q", brief(node.GetToken().Value))
	default:
		return "a " + strings.ToLower(node.Type().String())
	}
}
