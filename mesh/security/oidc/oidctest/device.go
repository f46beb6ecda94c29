package oidctest

import (
	"crypto/rand"
	"net/http"
	"slices"
	"time"
)

// Client is the one that the provider lets log in by the device authorization grant.
const Client = "agentmesh"

// devices are the log-ins without a browser that are under way, and what came of them.
type devices struct {
	user    string
	answers []string // errors to the next questions, before the token; the last one stays
	lasts   time.Duration
	code    time.Duration
	open    map[string]bool   // device codes
	refresh map[string]string // refresh tokens that count, with their user
	scopes  []string
	renewed int
	onRenew func()
}

// Device has the user enter each code, after questions for the token were answered by the
// errors in turn; the error "" as the last one has it entered, any other stays.
func (p *Provider) Device(user string, answers ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices.user, p.devices.answers = user, answers
}

// Lasting has access tokens of devices last so long, and codes; 0 for an hour and ten minutes.
func (p *Provider) Lasting(token, code time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices.lasts, p.devices.code = token, code
}

// Renewed is how often a refresh token was taken. Scopes are those that were asked for last.
func (p *Provider) Renewed() (times int, scopes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.devices.renewed, p.devices.scopes
}

// OnRenewal has do called when a refresh token is taken, before the answer.
func (p *Provider) OnRenewal(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices.onRenew = do
}

// Counting is how many refresh tokens count. EndRefresh ends them all.
func (p *Provider) Counting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.devices.refresh)
}

// EndRefresh has no refresh token count any more.
func (p *Provider) EndRefresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.devices.refresh)
}

func (p *Provider) handleDevices(mux *http.ServeMux) {
	p.devices.open, p.devices.refresh = map[string]bool{}, map[string]string{}
	known := func(do http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.PostFormValue("client_id") != Client {
				fail(w, http.StatusUnauthorized, "invalid_client")
				return
			}
			do(w, r)
		}
	}
	mux.HandleFunc("POST /device", known(p.serveDevice))
	mux.HandleFunc("POST /token", known(p.serveToken))
	mux.HandleFunc("POST /revoke", known(func(_ http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.devices.refresh, r.PostFormValue("token"))
	}))
}

func fail(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	write(w, map[string]string{"error": why})
}

func (p *Provider) serveDevice(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	code, lasts := rand.Text(), p.devices.code
	if lasts == 0 {
		lasts = 10 * time.Minute
	}
	p.devices.open[code] = true
	p.devices.scopes = append(p.devices.scopes[:0:0], r.PostFormValue("scope"))
	write(w, map[string]any{"device_code": code, "user_code": "WDJB-MJHT", "verification_uri": p.URL + "/activate",
		"verification_uri_complete": p.URL + "/activate?code=WDJB-MJHT", "expires_in": int(lasts.Seconds()), "interval": 1})
}

func (p *Provider) serveToken(w http.ResponseWriter, r *http.Request) {
	user, why := p.asked(r)
	if why != "" {
		fail(w, http.StatusBadRequest, why)
		return
	}
	p.mu.Lock()
	refresh, lasts := rand.Text(), p.devices.lasts
	p.devices.refresh[refresh] = user
	p.mu.Unlock()
	if lasts == 0 {
		lasts = time.Hour
	}
	access := p.Token(user, map[string]any{"exp": time.Now().Add(lasts).Unix(), "jti": rand.Text()})
	write(w, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": int(lasts.Seconds()), "refresh_token": refresh})
}

// asked is whose token is to be given, or why none.
func (p *Provider) asked(r *http.Request) (user, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.devices
	if r.PostFormValue("grant_type") == "refresh_token" {
		token := r.PostFormValue("refresh_token")
		user, ok := d.refresh[token]
		if !ok {
			return "", "invalid_grant"
		}
		delete(d.refresh, token) // each is good once
		d.renewed++
		if d.onRenew != nil {
			d.onRenew()
		}
		return user, ""
	}
	code := r.PostFormValue("device_code")
	if !d.open[code] {
		return "", "expired_token"
	}
	if len(d.answers) > 0 {
		why = d.answers[0]
		if len(d.answers) > 1 {
			d.answers = slices.Delete(slices.Clone(d.answers), 0, 1)
		}
	}
	if why == "" {
		delete(d.open, code)
	}
	return d.user, why
}
