// Package console serves the scheduler as pages for browsers, to look at and not to change anything.
//
// It knows nothing but the API: each request of a browser becomes calls over a connection of its own, in memory, that shows the
// address, the certificate and the token of that browser. Who may see what, how often, and what is wrong with a name is so decided
// where it is for every other caller.
package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
)

const (
	// patience is how long the calls of one page may take together.
	patience = 20 * time.Second
	// refreshEvery is after how many seconds a page is asked for anew.
	refreshEvery = 10
)

//go:embed page.html
var layoutText string

//go:embed style.css
var style []byte

//go:embed refresh.js
var script template.JS

var (
	layout    = template.Must(template.New("page").Parse(layoutText))
	styleName = fmt.Sprintf("/style.css?v=%.4x", sha256.Sum256(style)) // another one is not the one that a browser has kept
	// policy lets browsers run our script and no other, wherever it comes from.
	policy = fmt.Sprintf("default-src 'none'; style-src 'self'; script-src 'sha256-%s'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'", digest(script))
)

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	api      *grpc.Server
	listener *listener
	pages    *http.ServeMux
}

// New returns the pages of a scheduler, whose API has been made with Credentials and is the console's from now on.
func New(api *grpc.Server) *Console {
	c := &Console{api: api, listener: newListener(), pages: http.NewServeMux()}
	for pattern, show := range map[string]pageFunc{
		"/{$}":                    overview,
		"/jobs":                   jobs,
		"/jobs/{name}":            job,
		"/tasks":                  tasks,
		"/tasks/{job}/{instance}": task,
		"/pools":                  pools,
		"/pools/{path...}":        pool,
		"/hosts":                  hosts,
		"/hosts/{name...}":        host,
		"/volumes":                volumes,
		"/": func(*visit) (*page, error) {
			return nil, status.Error(codes.NotFound, "there is no such page")
		},
	} {
		c.pages.Handle(pattern, c.page(show))
	}
	c.pages.HandleFunc("/style.css", serveStyle)
	return c
}

// Serve answers the calls of pages until ctx ends.
func (c *Console) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, c.api.Stop)
	defer stop()
	if err := c.api.Serve(c.listener); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		fail(w, r, http.StatusMethodNotAllowed, "Pages only show things: commands change them.")
		return
	}
	c.pages.ServeHTTP(w, r)
}

// pageFunc makes a page of answers of the API, whose errors it returns as they are.
type pageFunc func(*visit) (*page, error)

func (c *Console) page(show pageFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		v, err := c.visit(ctx, r)
		if err == nil {
			defer v.close()
			var p *page
			if p, err = v.show(show); err == nil {
				p.User = v.user
				p.Time = time.Now().Format("15:04:05 MST")
				p.Section = section(r.URL.Path)
				p.setRefresh(r.URL)
				write(w, http.StatusOK, p)
				return
			}
		}
		code := httpStatus(err)
		if code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="sluice", charset="UTF-8"`)
		}
		fail(w, r, code, words.Problems(err)...)
	})
}

// show makes a page, unless what was asked for cannot be said to the API.
func (v *visit) show(f pageFunc) (*page, error) {
	query, err := url.QueryUnescape(v.request.URL.RawQuery)
	if err != nil || !utf8.ValidString(v.request.URL.Path) || !utf8.ValidString(query) {
		return nil, status.Error(codes.InvalidArgument, "the address is not UTF-8")
	}
	return f(v)
}

// section is the part of the pages that a path is in.
func section(path string) string {
	part, below, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case part == "tasks" && below != "":
		part = "jobs"
	case part == "volumes":
		part = "hosts"
	}
	return "/" + part
}

// httpStatus is the status of a page that shows an error of the API.
func httpStatus(err error) int {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.OutOfRange, codes.Unimplemented:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.FailedPrecondition, codes.Aborted, codes.AlreadyExists:
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unavailable, codes.Canceled:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// fail shows what is wrong. What is wrong with a request stays so, and is not asked for anew by itself.
func fail(w http.ResponseWriter, r *http.Request, code int, problems ...string) {
	p := &page{Title: http.StatusText(code), Problems: problems}
	p.setRefresh(r.URL)
	switch code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		p.Refresh, p.Toggle = 0, ""
	}
	if code == http.StatusUnauthorized {
		p.Problems = append(p.Problems, "In a browser, a token is shown as the password; the name beside it does not matter.")
	}
	write(w, code, p)
}

// serveStyle sends what pages look like.
func serveStyle(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=86400")
	http.ServeContent(w, r, "style.css", time.Time{}, bytes.NewReader(style))
}

// digest is what a content security policy names a script by.
func digest(script template.JS) string {
	sum := sha256.Sum256([]byte(script))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// write sends a page as a whole or not at all.
func write(w http.ResponseWriter, code int, p *page) {
	p.Style, p.Script = styleName, script
	var b bytes.Buffer
	if err := layout.Execute(&b, p); err != nil {
		http.Error(w, "the page cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // who does not read it any more needs no error
}
