// Package filecount counts and hashes the files of a folder in shares that add up, so that many processes can divide
// the work and the sum can be checked against a direct count.
package filecount

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Total is the number of files, their bytes, and a digest that depends on their names and contents, but not on their
// order: the exclusive or of the SHA-256 of each file's relative path, a zero byte and its content.
type Total struct {
	Files, Bytes int64
	Digest       [sha256.Size]byte
}

// Add adds the files of another share.
func (t *Total) Add(u Total) {
	t.Files += u.Files
	t.Bytes += u.Bytes
	for i := range t.Digest {
		t.Digest[i] ^= u.Digest[i]
	}
}

// String returns "files=N bytes=N digest=HEX".
func (t Total) String() string {
	return fmt.Sprintf("files=%d bytes=%d digest=%s", t.Files, t.Bytes, hex.EncodeToString(t.Digest[:]))
}

// Parse reads what String wrote.
func Parse(s string) (Total, error) {
	var t Total
	var digest string
	if _, err := fmt.Sscanf(strings.TrimSpace(s), "files=%d bytes=%d digest=%s", &t.Files, &t.Bytes, &digest); err != nil {
		return Total{}, fmt.Errorf("filecount: %q is not a total: %w", s, err)
	}
	n, err := hex.Decode(t.Digest[:], []byte(digest[:min(len(digest), 2*sha256.Size)]))
	if err != nil || n != sha256.Size || len(digest) != 2*sha256.Size {
		return Total{}, fmt.Errorf("filecount: %q is not a digest", digest)
	}
	return t, nil
}

// Share counts the regular files below dir whose position, in the order of their paths, is share modulo shares. It
// requires 0 ≤ share < shares. Links are not followed.
func Share(dir string, share, shares int) (Total, error) {
	var t Total
	position := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		position++
		if (position-1)%shares != share {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return t.file(path, name)
	})
	if err != nil {
		return Total{}, fmt.Errorf("filecount: %w", err)
	}
	return t, nil
}

func (t *Total) file(path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // was only read
	h := sha256.New()
	_, _ = io.WriteString(h, name+"\x00") // a hash takes everything
	n, err := io.Copy(h, f)
	if err != nil {
		return err
	}
	one := Total{Files: 1, Bytes: n}
	h.Sum(one.Digest[:0])
	t.Add(one)
	return nil
}
