package serve

import (
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one extends
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// codec is gRPC's own, save that it leaves what came undecoded, in the unknown fields of the message. The gate, through which every
// message passes, decodes it, when it knows who sent it and that it may have the room.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, to any) error {
	message, ok := to.(proto.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, to)
	}
	proto.Reset(message)
	message.ProtoReflect().SetUnknown(data.Materialize())
	return nil
}

// maxDecoded bounds what a message may take in memory once it is decoded: one of two bytes, in a list, takes hundreds.
const maxDecoded = 64 << 20

// decode decodes what the codec has left undecoded, or says by field what is wrong with it.
func decode(m proto.Message) error {
	r := m.ProtoReflect()
	raw := r.GetUnknown()
	var v violations
	switch {
	case decodedSize(r.Descriptor(), raw, 0) > maxDecoded:
		v.Invalid("", "takes more than %d MiB when it is decoded, as lists of very many entries do: send it in parts", maxDecoded>>20)
	case proto.Unmarshal(raw, m) == nil:
	case !findBadText(r.Descriptor(), raw, "", 0, &v):
		v.Invalid("", "is not a valid protobuf message")
	}
	return v.Err()
}

// decodedSize is about what the messages in an encoded one take in memory once they are decoded. Those that are nested too deep count
// as if they held as much as can be. Complexity: len(raw).
func decodedSize(d protoreflect.MessageDescriptor, raw []byte, depth int) (size int) {
	const perMessage, perField, perByte = 48, 8, 64
	if depth > maxDepth {
		return perByte * len(raw)
	}
	for len(raw) > 0 {
		number, wire, n := protowire.ConsumeField(raw)
		if n < 0 {
			break
		}
		if f := d.Fields().ByNumber(number); f != nil && f.Message() != nil && wire == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(raw)
			value, _ := protowire.ConsumeBytes(raw[tag:n])
			size += perMessage + perField*f.Message().Fields().Len() + decodedSize(f.Message(), value, depth+1)
		}
		raw = raw[n:]
	}
	return size
}

// findBadText reports the string fields in an encoded message that are not UTF-8 and whether there are any. Bytes that
// are no protobuf at all end the search.
func findBadText(d protoreflect.MessageDescriptor, raw []byte, path string, depth int, v *violations) (found bool) {
	index := map[protowire.Number]int{}
	for len(raw) > 0 && depth <= maxDepth {
		number, wire, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return found
		}
		raw = raw[n:]
		size := protowire.ConsumeFieldValue(number, wire, raw)
		if size < 0 {
			return found
		}
		value := raw[:size]
		raw = raw[size:]
		f := d.Fields().ByNumber(number)
		if f == nil || wire != protowire.BytesType {
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		at := child(path, string(f.Name()))
		switch {
		case d.IsMapEntry(): // whose fields are no names of the API
			at = path
		case f.IsList():
			at = item(at, index[number])
			index[number]++
		}
		switch {
		case f.Kind() == protoreflect.StringKind && !utf8.Valid(value):
			v.Invalid(at, "is not valid UTF-8: %s", quote(string(value)))
			found = true
		case f.Message() != nil:
			found = findBadText(f.Message(), value, at, depth+1, v) || found
		}
	}
	return found
}
