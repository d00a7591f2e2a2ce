package console

import "net/http"

// Standby is the page at every address of a scheduler that stands by for another one; why says so, and who leads. Browsers ask for it
// anew: this scheduler may come to lead.
func Standby(why func() string) http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("/style.css", serveStyle)
	pages.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fail(w, r, http.StatusServiceUnavailable, why()) })
	return pages
}
