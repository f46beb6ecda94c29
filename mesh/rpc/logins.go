package rpc

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"agentmesh/mesh"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxAddresses is how many addresses are remembered whose log-ins failed.
const maxAddresses = 4096

// tellEvery is how often the failures of an address are logged.
const tellEvery = time.Minute

// logins counts the log-ins that failed, by where they came from.
type logins struct {
	limiter Limiter // nil for no limit
	logger  *slog.Logger

	mu     sync.Mutex
	failed *simplelru.LRU[string, *failures] // the least recent are forgotten
}

// failures are those of an address since they were told.
type failures struct {
	count int
	told  time.Time
}

func newLogins(limiter Limiter, logger *slog.Logger) *logins {
	failed, err := simplelru.NewLRU[string, *failures](maxAddresses, nil)
	if err != nil {
		panic(err) // for a size that is not above 0
	}
	return &logins{limiter: limiter, logger: logger, failed: failed}
}

// refuse returns what a caller is told whose log-in failed with err: that, or to come
// later. It never delays or refuses who can log in. The log has a line a minute for each
// address, without what was sent.
func (l *logins) refuse(ctx context.Context, method string, err error, now time.Time) error {
	from := Remote(ctx)
	if n := l.note(from, now); n > 0 {
		l.logger.WarnContext(ctx, "log-in failed", "from", from, "times", n, "method", method, "why", mesh.DetailOf(err))
	}
	if l.limiter == nil {
		return err
	}
	wait, ok := l.limiter.Allow(from, now)
	if ok {
		return err
	}
	return WithRetryAfter(mesh.Errorf(mesh.Exhausted, "rpc.logins",
		"too many log-ins from here have failed; try again in %v, with a credential that counts", roundUp(wait)), wait)
}

// note counts a failure, and returns how many are to be told now.
func (l *logins) note(from string, now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, ok := l.failed.Get(from)
	if !ok {
		f = new(failures)
		l.failed.Add(from, f)
	}
	f.count++
	if !f.told.IsZero() && now.Sub(f.told) < tellEvery {
		return 0
	}
	n := f.count
	f.count, f.told = 0, now
	return n
}

// Remote is the host from which a call comes, or "" if that is not known.
func Remote(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	return hostOf(p.Addr)
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

type remoteKey struct{}

// WithRemote returns ctx for calls in the process that somebody makes from the address,
// as host:port: to the server they come from there. Who connected over TLS, of which state
// tells, proved itself by that; nil for none.
func WithRemote(ctx context.Context, addr string, state *tls.ConnectionState) context.Context {
	p := &peer.Peer{Addr: address(addr)}
	if state != nil {
		p.AuthInfo = credentials.TLSInfo{State: *state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	}
	return context.WithValue(ctx, remoteKey{}, p)
}

// address is a [net.Addr] that is known by name.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// withPeer returns ctx with whoever WithRemote says of the caller's context.
func withPeer(ctx, caller context.Context) context.Context {
	p, ok := caller.Value(remoteKey{}).(*peer.Peer)
	if !ok {
		return ctx
	}
	return peer.NewContext(ctx, p)
}
