package egress_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/egress"
)

func guard(t *testing.T, o egress.Options) *egress.Guard {
	t.Helper()
	g, err := egress.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestCheckRefusesURLsThatLeadInsideAndSaysWhy(t *testing.T) {
	for raw, says := range map[string]string{
		"https://127.0.0.1/hook":                   "this machine",
		"https://127.8.9.1:8443/":                  "this machine",
		"https://0.0.0.0/":                         "this machine",
		"https://localhost/":                       "this machine",
		"https://LOCALHOST./":                      "this machine",
		"https://api.localhost/":                   "this machine",
		"https://[::1]/":                           "this machine",
		"https://[::]/":                            "this machine",
		"https://[::ffff:127.0.0.1]/":              "this machine",
		"https://[64:ff9b::7f00:1]/":               "this machine",
		"https://10.0.0.1/":                        "private network",
		"https://172.31.255.255/":                  "private network",
		"https://192.168.1.1/":                     "private network",
		"https://[fd12::1]/":                       "private network",
		"https://[::ffff:10.1.1.1]/":               "private network",
		"https://100.64.0.1/":                      "shared network",
		"https://169.254.1.1/":                     "link-local",
		"https://[fe80::1]/":                       "link-local",
		"https://[fe80::1%25eth0]/":                "link-local",
		"https://224.0.0.1/":                       "multicast",
		"https://[ff02::1]/":                       "multicast",
		"https://169.254.169.254/latest/meta-data": "metadata",
		"https://168.63.129.16/":                   "metadata",
		"https://[fd00:ec2::254]/":                 "metadata",
		"https://255.255.255.255/":                 "reserved",
		"https://198.18.0.1/":                      "reserved",
		"https://[2002:7f00:1::]/":                 "reserved",
		"https://[2001:0:1::]/":                    "reserved",
		"https://[100::1]/":                        "reserved",
		"https://bad_host!/":                       "valid name",
		"http://example.com/":                      "https://",
		"ftp://example.com/":                       "https://",
		"https://user:secret@example.com/":         "password",
		"https://example.com:0/":                   "port",
		"https://example.com:70000/":               "port",
		"https://example.com:/":                    "port",
		"https:///path":                            "URL such as",
		"https:example.com":                        "URL such as",
		"example.com/hook":                         "URL such as",
		"https://a b/":                             "URL such as",
		"":                                         "URL such as",
		"https://example.com/" + strings.Repeat("x", egress.MaxURL): "limit",
	} {
		_, err := guard(t, egress.Options{}).Check("url", raw)
		var e *mesh.Error
		if !errors.As(err, &e) || e.Code != mesh.Invalid || e.Field != "url" || !strings.Contains(e.Detail, says) {
			t.Errorf("Check(%.60q) = %v, want an error about url that says %q", raw, err, says)
		}
		if e != nil && strings.Contains(e.Detail, "secret") {
			t.Errorf("Check(%q) tells the password: %v", raw, err)
		}
	}
}

func TestCheckAcceptsPublicURLsAndWhatIsAllowed(t *testing.T) {
	for raw, o := range map[string]egress.Options{
		"https://example.com/hook?x=1":    {},
		"https://example.com:8443/hook":   {},
		"https://8.8.8.8/":                {},
		"https://[2606:4700::1111]/":      {},
		"https://[64:ff9b::808:808]/":     {},
		"http://example.com/":             {AllowHTTP: true},
		"https://127.0.0.1:9/":            {Allow: []string{"127.0.0.0/8"}},
		"https://[::ffff:127.0.0.1]/":     {Allow: []string{"127.0.0.1"}},
		"https://localhost/":              {Allow: []string{"localhost"}},
		"https://LocalHost:1/":            {Allow: []string{"127.0.0.1/32"}},
		"https://[fd12::1]/":              {Allow: []string{"fd12::/64"}},
		"https://hooks.internal/":         {Allow: []string{"Hooks.Internal."}},
		"https://xn--bcher-kva.example/x": {},
	} {
		if _, err := guard(t, o).Check("url", raw); err != nil {
			t.Errorf("Check(%q) with %+v: %v", raw, o, err)
		}
	}
}

func TestNewRefusesAnAllowListThatItCannotRead(t *testing.T) {
	for _, entry := range []string{"", "10.0.0.0/40", "http://x", "host:80", "a..b", "*.example.com"} {
		if _, err := egress.New(egress.Options{Allow: []string{entry}}); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("Allow %q: %v, want Invalid", entry, err)
		}
	}
}

// names answers all questions for A records with its address, over a pipe.
func names(t *testing.T, address string) *net.Resolver {
	addr := netip.MustParseAddr(address).As4()
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = server.Close() }()
			for answer(server, addr) == nil {
			}
		}()
		t.Cleanup(func() { _ = client.Close(); <-done })
		return client, nil
	}}
}

// answer reads one question in the stream form of DNS (RFC 1035 §4.2.2) and
// answers it.
func answer(conn net.Conn, addr [4]byte) error {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return err
	}
	q := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, q); err != nil {
		return err
	}
	end := 12
	for q[end] != 0 {
		end += int(q[end]) + 1
	}
	end += 5 // the root, type and class
	typ := binary.BigEndian.Uint16(q[end-4:])
	r := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
	if typ == 1 {
		r[7] = 1
		r = append(r, 0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4)
		r = append(r, addr[:]...)
	}
	_, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(r))), r...))
	return err
}

// get asks for a URL through the guard.
func get(g *egress.Guard, url string) error {
	tr := g.Transport()
	defer tr.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func TestNamesThatLeadToThisMachineAreRefusedWhenConnected(t *testing.T) {
	var hits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	url := "http://rebound.example.com:" + port + "/"

	g := guard(t, egress.Options{AllowHTTP: true, Resolver: names(t, "127.0.0.1")})
	if _, err := g.Check("url", url); err != nil {
		t.Fatalf("the name itself is not suspicious: %v", err)
	}
	if err := get(g, url); !mesh.IsCode(err, mesh.Denied) || !strings.Contains(err.Error(), "this machine") {
		t.Errorf("connecting: %v, want Denied", err)
	}
	for _, number := range []string{"2130706433", "0x7f000001", "0177.0.0.1", "127.1"} {
		if err := get(g, "http://"+number+":"+port+"/"); err == nil {
			t.Errorf("%s was connected to", number)
		}
	}
	if hits.Load() != 0 {
		t.Error("a request arrived")
	}

	for _, allow := range []string{"rebound.example.com", "127.0.0.0/8"} {
		g := guard(t, egress.Options{AllowHTTP: true, Allow: []string{allow}, Resolver: names(t, "127.0.0.1")})
		if err := get(g, url); err != nil {
			t.Errorf("allowing %s: %v", allow, err)
		}
	}
	if hits.Load() != 2 {
		t.Errorf("%d requests arrived, want the 2 that were allowed", hits.Load())
	}
}

func TestNoProxyConnectsInsteadOfTheGuard(t *testing.T) {
	if guard(t, egress.Options{}).Transport().Proxy != nil {
		t.Error("the transport uses a proxy, which would connect to anything")
	}
}

// finding T8: agents of tenants are on this machine, or called over TLS, unless plaintext
// is allowed; and never where nothing may go. finding N12: however the address is written.
func TestAgentsElsewhereAreCalledOverTLS(t *testing.T) {
	open, closed := egress.Options{Allow: []string{"127.0.0.0/8", "10.1.0.0/16"}, AllowHTTP: true}, egress.Options{Allow: []string{"127.0.0.0/8", "10.1.0.0/16"}}
	for address, want := range map[string]struct{ open, closed bool }{
		"127.0.0.1:7000":           {true, true},
		"localhost:7000":           {true, true},
		"http://127.0.0.1:7000/":   {true, true},
		"agents.example:7000":      {true, false},
		"http://agents.example/":   {true, false},
		"10.1.2.3:7000":            {true, false},
		"grpcs://10.1.2.3:7000":    {true, true},
		"https://agents.example/":  {true, true},
		"grpcs://10.2.0.1:7000":    {false, false},
		"https://169.254.169.254/": {false, false},
		"10.2.0.1:7000":            {false, false},
		"http://%zz/":              {false, false},

		"dns:///127.0.0.1:7000":             {true, true},
		"dns:///localhost:7000":             {true, true},
		"DNS:///agents.example:7000":        {true, false},
		"dns:///10.1.2.3:7000":              {true, false},
		"dns:///10.2.0.1:7000":              {false, false},
		"dns:///169.254.169.254":            {false, false},
		"dns:///[::ffff:10.2.0.1]:80":       {false, false},
		"dns://127.0.0.1/10.2.0.1:7000":     {false, false},
		"dns://127.0.0.1/agents.example:70": {false, false},
		"grpc://127.0.0.1:7000":             {true, true},
		"grpc://agents.example:7000":        {true, false},
		"GRPCS://agents.example:7000":       {true, true},
		"grpcs://169.254.169.254":           {false, false},
		"https://agents.example:7000":       {true, true},
		"unix:///run/agent.sock":            {false, false},
		"passthrough:///127.0.0.1:7000":     {false, false},
		"ftp://127.0.0.1:7000":              {false, false},
		"http://u:p@127.0.0.1/":             {false, false},
		"":                                  {false, false},
	} {
		for o, ok := range map[*egress.Options]bool{&open: want.open, &closed: want.closed} {
			if err := guard(t, *o).CheckAgent(address); (err == nil) != ok || err != nil && !mesh.IsCode(err, mesh.Invalid) {
				t.Errorf("%s, with http %t: %v", address, o.AllowHTTP, err)
			}
		}
	}
}
