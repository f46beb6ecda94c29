package davcal

import (
	"net/url"
	"testing"
)

// The password goes to the server itself, and over TLS to others of the same owner.
func TestTrusted_isWhoseDomainItIs(t *testing.T) {
	for at, others := range map[string]map[string]bool{
		"https://caldav.icloud.com/": {
			"https://caldav.icloud.com/1/principal/": true, "https://p42-caldav.icloud.com:443/1/calendars/": true, "https://p42-caldav.icloud.com/": true,
			"http://p42-caldav.icloud.com/": false, "https://p42-caldav.icloud.com:8443/": false, "https://icloud.com.evil.example/": false, "https://evil.example/": false,
		},
		"https://dav.example.co.uk/": {"https://www.example.co.uk/": true, "https://other.co.uk/": false},
		"http://127.0.0.1:5232/":     {"http://127.0.0.1:5232/ann/": true, "http://127.0.0.1:80/": false, "https://127.0.0.1/": false},
		"https://dav.github.io/":     {"https://other.github.io/": false},
	} {
		a, err := New(Settings{URL: at, User: "ann", Password: "s3cret-pw"})
		if err != nil {
			t.Fatal(err)
		}
		for other, want := range others {
			u, err := url.Parse(other)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.trusted(u); got != want {
				t.Errorf("%s for %s: %v", other, at, got)
			}
		}
	}
}
