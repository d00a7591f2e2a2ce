package serve

import (
	"context"
	"log/slog"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Protect lets a page be seen by whoever holds the role operator, or any role where everybody is set, with the same
// credentials as calls.
func (s *Scheduler) Protect(page http.Handler, everybody bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var shown Credentials
		if header := r.Header.Get("Authorization"); header != "" {
			shown.Token = tokenIn(header)
		}
		if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			shown.Chain = r.TLS.VerifiedChains[0]
		}
		from := hostOf(r.RemoteAddr)
		who, err := s.authenticate(shown, from)
		switch in := s.Snapshot(); {
		case status.Code(err) == codes.ResourceExhausted:
			http.Error(w, status.Convert(err).Message(), http.StatusTooManyRequests)
		case err != nil:
			w.Header().Add("WWW-Authenticate", "Bearer")
			w.Header().Add("WWW-Authenticate", `Basic realm="sluice", charset="UTF-8"`)
			http.Error(w, status.Convert(err).Message(), http.StatusUnauthorized)
		case !who.IsOperator(in) && (!everybody || !who.HoldsAny(in)):
			s.config.Audit.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelInfo, "page", slog.String("user", who.User),
				slog.String("from", from), slog.String("page", r.URL.Path), slog.String("result", codes.PermissionDenied.String()))
			which := "the role " + cluster.Operator.String()
			if everybody {
				which = "a role, whichever,"
			}
			http.Error(w, which+" is needed", http.StatusForbidden)
		default:
			page.ServeHTTP(w, r.WithContext(withReader(r.Context(), who)))
		}
	})
}
