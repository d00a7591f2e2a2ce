package console

import (
	"net"
	"net/http"
	"strings"
)

// Guard tells browsers to keep what pages show to themselves, whichever pages they are. Where anybody may call, without showing who he is,
// they answer under names of this machine and the host in address only: a page of somebody else's could get a name that leads here, and
// read with it.
func Guard(pages http.Handler, anybody bool, address string) http.Handler {
	name, _, _ := net.SplitHostPort(address)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if anybody && !own(r.Host, name) {
			fail(w, r, http.StatusMisdirectedRequest, "This scheduler asks nobody who he is, and so it answers under names of this machine only, such as localhost.")
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// own reports whether a request was made for a name that leads nowhere but to here: an address, a name of this machine, or the one given.
func own(host, also string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	return net.ParseIP(name) != nil || strings.EqualFold(name, "localhost") || name != "" && strings.EqualFold(name, also)
}
