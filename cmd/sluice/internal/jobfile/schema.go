package jobfile

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// schema tells the keys of a message.
type schema struct {
	fields map[string]protoreflect.FieldDescriptor
	keys   []string // sorted
}

func schemaOf(md protoreflect.MessageDescriptor) schema {
	s := schema{fields: map[string]protoreflect.FieldDescriptor{}}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		s.fields[keyOf(fd)] = fd
		s.keys = append(s.keys, keyOf(fd))
	}
	slices.Sort(s.keys)
	return s
}

// suggest helps with an unknown key: the nearest one, or all where none is near.
func (s schema) suggest(key string) string {
	for _, k := range s.keys {
		if string(s.fields[k].Name()) == key {
			return fmt.Sprintf(": it is written as %q, with a unit in the value", k)
		}
	}
	if near := Nearest(key, s.keys); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	return ": the keys here are " + strings.Join(s.keys, ", ")
}

// keyOf returns how a file spells a field.
func keyOf(fd protoreflect.FieldDescriptor) string {
	if u, ok := units[fd.FullName()]; ok {
		return u.key
	}
	return string(fd.Name())
}

// nameOf returns a message's name for people.
func nameOf(md protoreflect.MessageDescriptor) string { return string(md.Name()) }

// onlyList returns the single field of a message that holds nothing but a list, else nil.
func onlyList(md protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	if md.Fields().Len() != 1 || !md.Fields().Get(0).IsList() {
		return nil
	}
	return md.Fields().Get(0)
}

// valueNames returns how a file spells the values of an enumeration, in their order. The first, unspecified one is
// not for files.
func valueNames(ed protoreflect.EnumDescriptor) []string {
	prefix := enumPrefix(string(ed.Name()))
	var names []string
	for i := 1; i < ed.Values().Len(); i++ {
		name := strings.TrimPrefix(string(ed.Values().Get(i).Name()), prefix)
		names = append(names, strings.ToLower(name))
	}
	return names
}

// enumPrefix returns what the values of an enumeration begin with: JOB_TYPE_ for JobType.
func enumPrefix(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String()) + "_"
}

// Nearest returns the candidate with the smallest edit distance (V. I. Levenshtein, 1966) to s, "" if none is near
// enough to be what was meant. Among equals the first wins. Complexity: O(len(s) × length of all candidates).
func Nearest(s string, candidates []string) string {
	best, nearest := 1+max(2, len(s)/3), ""
	for _, c := range candidates {
		if d := Distance(s, c); d < best {
			best, nearest = d, c
		}
	}
	return nearest
}

// Distance is how many letters have to be put in, left out or replaced to make one text of the other (Levenshtein).
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
