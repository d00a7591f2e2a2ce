package serve

import (
	"cmp"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Limits keep any one caller from holding the server. Zero values are the defaults.
type Limits struct {
	Rate     int           // calls a second of one user, once Burst is spent
	Burst    int           // calls at once
	Streams  int           // watches, logs and exports that one user has open
	Patience time.Duration // for the first message of a call, and for a client to take a message of a stream
}

// The limits that hold where nothing else is said.
const (
	DefaultRate     = 1000
	DefaultBurst    = 2000
	DefaultStreams  = 256
	DefaultPatience = 30 * time.Second
)

func (l *Limits) fill() {
	l.Rate = cmp.Or(l.Rate, DefaultRate)
	l.Burst = cmp.Or(l.Burst, DefaultBurst)
	l.Streams = cmp.Or(l.Streams, DefaultStreams)
	l.Patience = cmp.Or(l.Patience, DefaultPatience)
}

// maxRemembered bounds the callers and addresses that are kept in mind. Beyond it, those that are quiet are forgotten.
const maxRemembered = 10_000

// throttle counts what each user asks for.
type throttle struct {
	limits Limits
	mu     sync.Mutex
	users  map[string]*spending
}

// spending is what one user, or one address of those who do not say who they are, asks for now.
type spending struct {
	calls     *rate.Limiter
	streams   int
	receiving int // requests of a public call that have not come to their end
}

func newThrottle(l Limits) *throttle { return &throttle{limits: l, users: map[string]*spending{}} }

// of returns the spending of a user; the caller holds mu.
func (t *throttle) of(user string) *spending {
	u := t.users[user]
	if u == nil {
		if len(t.users) >= maxRemembered {
			for name, old := range t.users {
				if old.streams == 0 && old.receiving == 0 && old.calls.Tokens() >= float64(t.limits.Burst) {
					delete(t.users, name)
				}
			}
		}
		u = &spending{calls: rate.NewLimiter(rate.Limit(t.limits.Rate), t.limits.Burst)}
		t.users[user] = u
	}
	return u
}

// call lets a call pass, or says that there are too many.
func (t *throttle) call(user string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.of(user).calls.Allow() {
		return status.Errorf(codes.ResourceExhausted, "user %s makes more than %d calls a second: slow down, or watch instead of asking",
			quote(user), t.limits.Rate)
	}
	return nil
}

// open lets a stream begin. Where it does, done has to be called at its end.
func (t *throttle) open(user string) (done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.of(user)
	if u.streams >= t.limits.Streams {
		return nil, status.Errorf(codes.ResourceExhausted, "user %s has %d streams open: end some first", quote(user), u.streams)
	}
	return t.hold(&u.streams), nil
}

// hold counts one more until done is called. The caller holds mu.
func (t *throttle) hold(count *int) (done func()) {
	*count++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		*count--
	}
}

// maxReceiving bounds the requests that come from one address at once without it being known who sends them. Each may take MaxRequestBytes
// before its size is known.
const maxReceiving = 32

// receive lets a request come in. Where it does, done has to be called when it is there.
func (t *throttle) receive(address string) (done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.of(address)
	if u.receiving >= maxReceiving {
		return nil, status.Errorf(codes.ResourceExhausted, "%d requests come from one address at once, and nobody has said who sends them: try again", maxReceiving)
	}
	return t.hold(&u.receiving), nil
}

// After guessBurst wrong tokens from one address, one more is looked at every guessPause.
const (
	guessBurst = 10
	guessPause = time.Minute
)

// guessing counts the wrong tokens that come from each address.
type guessing struct {
	mu   sync.Mutex
	from map[string]*rate.Limiter
}

// locked reports whether tokens from an address are not looked at now.
func (g *guessing) locked(address string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.from[address]
	return l != nil && l.Tokens() < 1
}

// failed counts a wrong token.
func (g *guessing) failed(address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.from == nil {
		g.from = map[string]*rate.Limiter{}
	}
	l := g.from[address]
	if l == nil {
		if len(g.from) >= maxRemembered {
			for a, old := range g.from {
				if old.Tokens() >= guessBurst {
					delete(g.from, a)
				}
			}
		}
		l = rate.NewLimiter(rate.Every(guessPause), guessBurst)
		g.from[address] = l
	}
	l.Allow()
}
