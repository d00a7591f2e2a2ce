package mesos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// decodeLeniently reads an event, or a part of one, whose JSON has words that the generated enums do not know, since the master is newer than
// they are: those count as not set, as in protobuf. The generated decoder fails on them, and with them on the whole event.
func decodeLeniently[T any](data []byte, into *T) error {
	in := json.NewDecoder(bytes.NewReader(data))
	in.UseNumber() // times do not fit a double
	var raw any
	if err := in.Decode(&raw); err != nil {
		return err
	}
	forget(raw, reflect.TypeFor[T]())
	cleaned, err := json.Marshal(raw)
	if err != nil {
		return err
	}
	*into = *new(T)
	return json.Unmarshal(cleaned, into)
}

// forget removes the unknown words from the JSON of a message. In a list it removes the element that has one: for all that
// is known of it, it says nothing.
func forget(raw any, message reflect.Type) (known bool) {
	known = true
	object, ok := raw.(map[string]any)
	for message.Kind() == reflect.Pointer {
		message = message.Elem()
	}
	if !ok || message.Kind() != reflect.Struct {
		return known
	}
	for i := range message.NumField() {
		field := message.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		value, set := object[name]
		if !set {
			continue
		}
		kind := field.Type
		if list, ok := value.([]any); ok && kind.Kind() == reflect.Slice {
			kept := make([]any, 0, len(list))
			for _, element := range list {
				if forget(element, kind.Elem()) {
					kept = append(kept, element)
				}
			}
			object[name] = kept
			continue
		}
		if word, ok := value.(string); ok && !isWord(word, kind) {
			delete(object, name)
			known = false
			continue
		}
		forget(value, kind)
	}
	return known
}

// isWord tells whether a field of a kind, if it is an enum, knows a word.
func isWord(word string, kind reflect.Type) bool {
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if kind.Kind() != reflect.Int32 {
		return true
	}
	enum, ok := reflect.New(kind).Interface().(json.Unmarshaler)
	return !ok || enum.UnmarshalJSON(fmt.Appendf(nil, "%q", word)) == nil
}
