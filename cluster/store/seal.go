package store

import (
	"encoding/binary"
	"hash/crc32"
)

// sealSize is by how many bytes a sealed value is longer.
const sealSize = 4

// Seal puts a checksum before a value: CRC-32C of the key and the value, big endian.
func Seal(key, value []byte) []byte {
	sealed := binary.BigEndian.AppendUint32(make([]byte, 0, sealSize+len(value)), checksum(key, value))
	return append(sealed, value...)
}

// Unseal returns the value that was sealed, a part of sealed; whole is false where it is not what was sealed under that key.
func Unseal(key, sealed []byte) (value []byte, whole bool) {
	if len(sealed) < sealSize || binary.BigEndian.Uint32(sealed) != checksum(key, sealed[sealSize:]) {
		return nil, false
	}
	return sealed[sealSize:], true
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}
