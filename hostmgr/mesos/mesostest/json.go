package mesostest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The master's mapping between JSON and protobuf, which is not the usual one: names are those of the .proto file and
// nothing else, unknown names are ignored, an unknown enum value counts as not set, numbers may come as strings but
// enums not as numbers, and doubles are written with a fraction.

// field is a field of a generated message.
type field struct {
	index    int
	name     string
	required bool
	enum     bool
}

var fieldsOf sync.Map // reflect.Type → []field

// fields returns the message's fields in the order of their declaration.
func fields(t reflect.Type) []field {
	if known, ok := fieldsOf.Load(t); ok {
		return known.([]field)
	}
	var out []field
	for i := range t.NumField() {
		tag, ok := t.Field(i).Tag.Lookup("protobuf")
		if !ok {
			continue
		}
		f := field{index: i}
		for j, part := range strings.Split(tag, ",") {
			key, value, _ := strings.Cut(part, "=")
			switch {
			case j == 2:
				f.required = part == "req"
			case key == "name":
				f.name = value
			case key == "enum":
				f.enum = true
			}
		}
		out = append(out, f)
	}
	fieldsOf.Store(t, out)
	return out
}

// errBody is what the master answers to a body that it cannot read.
type errBody string

func (e errBody) Error() string { return string(e) }

func refuse(format string, args ...any) error { return errBody(fmt.Sprintf(format, args...)) }

// decodeJSON reads a message of the given kind ("Call") as the master does. It also returns the parsed JSON.
func decodeJSON(body []byte, kind string, into any) (map[string]any, error) {
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.UseNumber()
	var raw any
	if err := dec.Decode(&raw); err != nil {
		return nil, errBody("Failed to parse body into JSON: syntax error at line 1 near: ")
	}
	object, ok := raw.(map[string]any)
	fail := "Failed to convert JSON into " + kind + " protobuf: "
	if !ok {
		return nil, errBody(fail + "Expecting a JSON object")
	}
	var missing []string
	if err := decodeMessage(object, reflect.ValueOf(into).Elem(), "", &missing); err != nil {
		return nil, errBody(fail + err.Error())
	}
	if len(missing) > 0 {
		return nil, errBody(fail + "Missing required fields: " + strings.Join(missing, ", "))
	}
	return object, nil
}

// decodeMessage sets the fields of v that object has, and adds the paths of required ones that it has not to missing.
func decodeMessage(object map[string]any, v reflect.Value, path string, missing *[]string) error {
	for _, f := range fields(v.Type()) {
		set := false
		if raw, ok := object[f.name]; ok && raw != nil {
			var err error
			if set, err = decodeField(raw, v.Field(f.index), f, path+f.name, missing); err != nil {
				return err
			}
		}
		if f.required && !set {
			*missing = append(*missing, path+f.name)
		}
	}
	return nil
}

// decodeField sets one field, which may be repeated or a map. It returns whether the field counts as set.
func decodeField(raw any, v reflect.Value, f field, path string, missing *[]string) (bool, error) {
	switch {
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		list, ok := raw.([]any)
		if !ok {
			return false, unexpected(raw, f)
		}
		out := reflect.MakeSlice(v.Type(), 0, len(list))
		for i, item := range list {
			elem := reflect.New(v.Type().Elem()).Elem()
			set, err := decodeValue(item, elem, f, fmt.Sprintf("%s[%d]", path, i), missing)
			if err != nil {
				return false, err
			}
			if set {
				out = reflect.Append(out, elem)
			}
		}
		v.Set(out)
		return true, nil
	case v.Kind() == reflect.Map:
		object, ok := raw.(map[string]any)
		if !ok {
			return false, unexpected(raw, f)
		}
		v.Set(reflect.MakeMap(v.Type()))
		for key, item := range object {
			elem := reflect.New(v.Type().Elem()).Elem()
			if _, err := decodeValue(item, elem, f, path+"."+key, missing); err != nil {
				return false, err
			}
			v.SetMapIndex(reflect.ValueOf(key), elem)
		}
		return true, nil
	}
	return decodeValue(raw, v, f, path, missing)
}

// decodeValue sets one value.
func decodeValue(raw any, v reflect.Value, f field, path string, missing *[]string) (bool, error) {
	if v.Kind() == reflect.Pointer {
		elem := reflect.New(v.Type().Elem())
		set, err := decodeValue(raw, elem.Elem(), f, path, missing)
		if set {
			v.Set(elem)
		}
		return set, err
	}
	switch {
	case f.enum:
		name, ok := raw.(string)
		if !ok {
			return false, unexpected(raw, f)
		}
		enum, ok := v.Addr().Interface().(json.Unmarshaler)
		return ok && enum.UnmarshalJSON(strconv.AppendQuote(nil, name)) == nil, nil
	case v.Kind() == reflect.Struct:
		object, ok := raw.(map[string]any)
		if !ok {
			return false, unexpected(raw, f)
		}
		return true, decodeMessage(object, v, path+".", missing)
	case v.Kind() == reflect.Slice: // bytes
		text, ok := raw.(string)
		if !ok {
			return false, unexpected(raw, f)
		}
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return false, refuse("Failed to base64 decode bytes field '%s': %s", f.name, badBase64(text, err))
		}
		v.SetBytes(b)
		return true, nil
	case v.Kind() == reflect.String:
		text, ok := raw.(string)
		if !ok {
			return false, unexpected(raw, f)
		}
		v.SetString(text)
		return true, nil
	case v.Kind() == reflect.Bool:
		b, ok := raw.(bool)
		if !ok {
			return false, unexpected(raw, f)
		}
		v.SetBool(b)
		return true, nil
	}
	return true, decodeNumber(raw, v, f)
}

func decodeNumber(raw any, v reflect.Value, f field) error {
	var text string
	switch x := raw.(type) {
	case json.Number:
		text = x.String()
	case string:
		text = x
	default:
		return unexpected(raw, f)
	}
	d, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return refuse("Failed to parse '%s' as a JSON number for field '%s': syntax error at line 1 near: %s",
			text, f.name, text)
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		v.SetFloat(d)
	case reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			n = int64(d)
		}
		v.SetInt(n)
	default:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			n = uint64(d)
		}
		v.SetUint(n)
	}
	return nil
}

// unexpected is the error about a value of the wrong kind.
func unexpected(raw any, f field) error {
	kind := "null"
	switch raw.(type) {
	case string:
		kind = "string"
	case json.Number:
		kind = "number"
	case bool:
		kind = "boolean"
	case []any:
		kind = "array"
	case map[string]any:
		kind = "object"
	}
	return refuse("Not expecting a JSON %s for field '%s'", kind, f.name)
}

func badBase64(text string, err error) string {
	var at base64.CorruptInputError
	if errors.As(err, &at) && int(at) < len(text) {
		return fmt.Sprintf("Invalid character '%c'", text[at])
	}
	return err.Error()
}

// appendJSON writes a message as the master does. Fields that are not set and empty lists are left out.
func appendJSON(b []byte, message any) []byte {
	return appendMessage(b, reflect.Indirect(reflect.ValueOf(message)))
}

func appendMessage(b []byte, v reflect.Value) []byte {
	b = append(b, '{')
	first := true
	for _, f := range fields(v.Type()) {
		value := v.Field(f.index)
		if unset(value, f) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(strconv.AppendQuote(b, f.name), ':')
		b = appendValue(b, value, f)
	}
	return append(b, '}')
}

// unset tells whether a field has nothing to show. What the generated code does not hold by pointer shows always, save an
// optional enum at zero.
func unset(v reflect.Value, f field) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil()
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Int32:
		return f.enum && !f.required && v.Int() == 0
	}
	return false
}

func appendValue(b []byte, v reflect.Value, f field) []byte {
	switch v.Kind() {
	case reflect.Pointer:
		return appendValue(b, v.Elem(), f)
	case reflect.Struct:
		return appendMessage(b, v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return strconv.AppendQuote(b, base64.StdEncoding.EncodeToString(v.Bytes()))
		}
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, v.Index(i), f)
		}
		return append(b, ']')
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
		b = append(b, '{')
		for i, key := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, key.String()), ':')
			b = appendValue(b, v.MapIndex(key), f)
		}
		return append(b, '}')
	case reflect.String:
		return appendText(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.Float32, reflect.Float64:
		return appendDouble(b, v.Float())
	case reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, v.Uint(), 10)
	}
	if v.Interface() == quotaV2 {
		return append(b, `"QUOTA_V2"`...)
	}
	if name, ok := v.Interface().(fmt.Stringer); ok && f.enum {
		return strconv.AppendQuote(b, name.String())
	}
	return strconv.AppendInt(b, v.Int(), 10)
}

func appendText(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return append(b, quoted...)
}

// appendDouble writes 4 as 4.0.
func appendDouble(b []byte, d float64) []byte {
	if d == math.Trunc(d) && math.Abs(d) < 1e15 {
		return strconv.AppendFloat(b, d, 'f', 1, 64)
	}
	return strconv.AppendFloat(b, d, 'f', -1, 64)
}
