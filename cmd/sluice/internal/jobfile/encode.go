package jobfile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Format writes a message as a document of a file from which reading makes the same message: it has been read before it is
// returned. It fails where a message holds what no file can, such as bytes that are no text, a duration of 300 years, or a
// value of an enumeration that this version does not know.
func Format(m proto.Message) ([]byte, error) {
	tree, err := document(m.ProtoReflect())
	if err != nil {
		return nil, err
	}
	data, err := yaml.MarshalWithOptions(tree, style)
	if err != nil {
		return nil, err
	}
	again, err := documents("what was written", data, func() proto.Message { return m.ProtoReflect().New().Interface() })
	switch {
	case err != nil:
		return nil, err
	case len(again) != 1 || !proto.Equal(m, again[0]):
		return nil, fmt.Errorf("%s: no file says the same", nameOf(m.ProtoReflect().Descriptor()))
	}
	return data, nil
}

// style writes texts of several lines, such as scripts, as such.
var style = yaml.UseLiteralStyleIfMultiline(true)

// document is the value of a message: keys in the order of its fields, or a list.
func document(m protoreflect.Message) (any, error) {
	if fd := onlyList(m.Descriptor()); fd != nil {
		return valueOf(fd, m.Get(fd))
	}
	pairs := yaml.MapSlice{}
	fields := m.Descriptor().Fields()
	var in *dimension
	if m.Descriptor().FullName() == dimensioned {
		in = dimensionOf(m.Get(fields.ByName("dimension")).String())
	}
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		var v any
		var err error
		switch {
		case in != nil && fd.FullName() == dimensionField:
			v = in.key
		case in != nil && isAmountOfDimension(fd):
			v = in.text(m.Get(fd).Int())
		default:
			v, err = valueOf(fd, m.Get(fd))
		}
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, yaml.MapItem{Key: keyOf(fd), Value: v})
	}
	return pairs, nil
}

func valueOf(fd protoreflect.FieldDescriptor, v protoreflect.Value) (any, error) {
	switch {
	case fd.IsMap():
		plain := map[string]protoreflect.Value{}
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool { plain[k.String()] = v; return true })
		pairs := yaml.MapSlice{}
		for _, k := range slices.Sorted(maps.Keys(plain)) {
			one, err := single(fd.MapValue(), plain[k])
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, yaml.MapItem{Key: k, Value: one})
		}
		return pairs, nil
	case fd.IsList():
		all := make([]any, v.List().Len())
		for i := range all {
			var err error
			if all[i], err = single(fd, v.List().Get(i)); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return single(fd, v)
}

// text is an amount, as a number where it is one, which has no quotes then.
func (u unit) text(amount int64) any {
	text := u.format(amount)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	return text
}

// single is the value of one element of a field.
func single(fd protoreflect.FieldDescriptor, v protoreflect.Value) (any, error) {
	if u, is := units[fd.FullName()]; is {
		return u.text(v.Int()), nil
	}
	switch fd.Kind() {
	case protoreflect.MessageKind:
		if isWellKnown(fd) {
			return wellKnownText(fd, v.Message())
		}
		return document(v.Message())
	case protoreflect.EnumKind:
		for i, name := range valueNames(fd.Enum()) {
			if fd.Enum().Values().Get(i+1).Number() == v.Enum() {
				return name, nil
			}
		}
		return nil, fmt.Errorf("%s: a file has no word for %d", keyOf(fd), v.Enum())
	case protoreflect.StringKind:
		return text(v.String()), nil
	case protoreflect.BytesKind:
		return text(string(v.Bytes())), nil
	}
	return v.Interface(), nil
}

// quoted is a text in double quotes. Go escapes as YAML does.
type quoted string

// MarshalYAML is called by the library.
func (q quoted) MarshalYAML() ([]byte, error) { return []byte(strconv.Quote(string(q))), nil }

// noText are texts that the library reads as they are, and other readers of YAML do not without quotes.
var noText = regexp.MustCompile(`^\?|^(<<|=)$|^[-+]?[0-9]+(:[0-9]+)+(\.[0-9]*)?$`)

// text chooses the style of a text: the library's, save where it would read another text then, as of some that begin or end with
// white space, where another reader would, and where control characters would not be seen.
func text(s string) any {
	lines := strings.Contains(s, "\n")
	unseen := func(r rune) bool { return !unicode.IsPrint(r) && !(lines && (r == '\n' || r == '\t')) }
	var again []string
	if data, err := yaml.MarshalWithOptions([]string{s}, style); err != nil || strings.TrimSpace(s) == "" || strings.ContainsFunc(s, unseen) || noText.MatchString(s) ||
		yaml.Unmarshal(data, &again) != nil || len(again) != 1 || again[0] != s {
		return quoted(s)
	}
	return s
}

func wellKnownText(fd protoreflect.FieldDescriptor, m protoreflect.Message) (string, error) {
	switch t := m.Interface().(type) {
	case *durationpb.Duration:
		s := t.AsDuration().String()
		for _, rest := range []string{"0s", "0m"} { // 1h0m0s
			if cut := strings.TrimSuffix(s, rest); cut != s && strings.ContainsAny(cut[max(0, len(cut)-1):], "hm") {
				s = cut
			}
		}
		return s, nil
	case *timestamppb.Timestamp:
		return t.AsTime().Format(time.RFC3339Nano), nil
	}
	return "", fmt.Errorf("%s cannot be given in a file", keyOf(fd))
}
