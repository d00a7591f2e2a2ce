//go:build linux

package local

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
)

// fetchAll brings files into a folder, one after the other. Nothing is written outside of the folder, whatever archives
// contain.
func fetchAll(ctx context.Context, dir string, items []cluster.Fetch) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer closeRoot(root)
	for i := range items {
		if err := fetch(ctx, root, &items[i]); err != nil {
			return fmt.Errorf("local: fetch %s: %w", items[i].URI, err)
		}
	}
	return nil
}

func closeRoot(root *os.Root) { _ = root.Close() } // nothing is written through it

func fetch(ctx context.Context, root *os.Root, f *cluster.Fetch) (err error) {
	from, err := open(ctx, f.URI)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	target := path.Clean(f.Target())
	if err := root.MkdirAll(path.Dir(target), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if f.Executable {
		mode = 0o755
	}
	if err := write(root, target, from, mode); err != nil {
		return err
	}
	if f.Executable { // the file may have been there already
		if err := root.Chmod(target, mode); err != nil {
			return err
		}
	}
	if !f.Extract {
		return nil
	}
	return extract(root, target)
}

// open returns the content behind a URI.
func open(ctx context.Context, uri string) (io.ReadCloser, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" && u.Host != "localhost" || u.Path == "" {
			return nil, errors.New("it names no file of this machine: write file:///PATH, with three slashes")
		}
		f, err := os.OpenFile(u.Path, os.O_RDONLY|unix.O_NONBLOCK, 0) // which does not wait for who writes to a pipe
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is no file", u.Path)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	case "http", "https":
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Accept-Encoding", "identity") // an archive comes as it is, not unpacked on the way
		return download(request, fetchStall)
	default:
		return nil, fmt.Errorf("this host manager fetches file, http and https, not %q", u.Scheme)
	}
}

// fetchStall is how long a server may be silent, as Mesos has it (--fetcher_stall_timeout). How long it all takes is not bounded.
const fetchStall = time.Minute

// download returns what a server gives. It fails when nothing has come for as long as stall.
func download(request *http.Request, stall time.Duration) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	d := &downloading{stall: stall, cancel: cancel}
	d.silence = time.AfterFunc(stall, func() { cancel(fmt.Errorf("the server has sent nothing for %v", stall)) })
	answer, err := http.DefaultClient.Do(request.WithContext(ctx))
	if err != nil {
		d.stop()
		return nil, err
	}
	d.ReadCloser = answer.Body
	if answer.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the answer is %s", answer.Status), d.Close())
	}
	return d, nil
}

// downloading is the body of an answer whose server is not silent for long.
type downloading struct {
	io.ReadCloser
	stall   time.Duration
	silence *time.Timer
	cancel  context.CancelCauseFunc
}

func (d *downloading) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if n > 0 {
		d.silence.Reset(d.stall)
	}
	return n, err
}

func (d *downloading) Close() error {
	defer d.stop()
	return d.ReadCloser.Close()
}

func (d *downloading) stop() {
	d.silence.Stop()
	d.cancel(nil)
}

func write(root *os.Root, name string, from io.Reader, mode fs.FileMode) (err error) {
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	_, err = io.Copy(to, from)
	return err
}

// extract unpacks an archive beside it. Its name says what it is.
func extract(root *os.Root, name string) (err error) {
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	beside := path.Dir(name)
	switch {
	case strings.HasSuffix(name, ".tar"):
		return untar(root, beside, file)
	case strings.HasSuffix(name, ".tar.gz"), strings.HasSuffix(name, ".tgz"):
		unpacked, err := gzip.NewReader(file)
		if err != nil {
			return err
		}
		if err := untar(root, beside, unpacked); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, unpacked) // the checksum comes last
		return err
	case strings.HasSuffix(name, ".zip"):
		info, err := file.Stat()
		if err != nil {
			return err
		}
		return unzip(root, beside, file, info.Size())
	default:
		return fmt.Errorf("%s is no archive that this host manager unpacks: .tar, .tar.gz, .tgz or .zip", name)
	}
}

func untar(root *os.Root, beside string, from io.Reader) error {
	archive := tar.NewReader(from)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		target := path.Join(beside, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(target, 0o755)
		case tar.TypeReg:
			err = writeEntry(root, target, archive, h.FileInfo().Mode())
		case tar.TypeSymlink:
			err = errors.Join(root.MkdirAll(path.Dir(target), 0o755), root.Symlink(h.Linkname, target))
		case tar.TypeLink: // the name is that of an entry before
			err = errors.Join(root.MkdirAll(path.Dir(target), 0o755), root.Link(path.Join(beside, h.Linkname), target))
		case tar.TypeXGlobalHeader: // says something of the entries
		default:
			err = fmt.Errorf("an entry of type %q is no file, folder or link", h.Typeflag)
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}

func unzip(root *os.Root, beside string, from io.ReaderAt, size int64) error {
	archive, err := zip.NewReader(from, size)
	if err != nil {
		return err
	}
	for _, f := range archive.File {
		target := path.Join(beside, f.Name)
		if strings.HasSuffix(f.Name, "/") {
			err = root.MkdirAll(target, 0o755)
		} else {
			var content io.ReadCloser
			if content, err = f.Open(); err == nil {
				err = errors.Join(writeZipped(root, target, content, f.Mode()), content.Close())
			}
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", f.Name, err)
		}
	}
	return nil
}

// writeZipped writes a file, or a link, whose content is what it leads to.
func writeZipped(root *os.Root, name string, from io.Reader, mode fs.FileMode) error {
	if mode&fs.ModeSymlink == 0 {
		return writeEntry(root, name, from, mode)
	}
	to, err := io.ReadAll(io.LimitReader(from, maxLink))
	if err != nil {
		return err
	}
	return errors.Join(root.MkdirAll(path.Dir(name), 0o755), root.Symlink(string(to), name))
}

// maxLink bounds what is read of a link; Linux takes none of this length.
const maxLink = 4096

// writeEntry writes a file of an archive. Of its mode only the right to execute is kept.
func writeEntry(root *os.Root, name string, from io.Reader, mode fs.FileMode) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return write(root, name, from, 0o644|mode&0o111)
}
