package push_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestRedirectsKeepSecretsAtHome(t *testing.T) {
	w, home, away := memory(t), newHook(t), newHook(t)
	c := w.config()
	c.Attempts = 1
	d, _ := w.dispatcher(c)
	home.answer = func(rw http.ResponseWriter, r *http.Request) {
		var to string
		status := http.StatusTemporaryRedirect
		switch r.URL.Path {
		case "/same":
			to = "/end"
		case "/away":
			to, status = away.URL+"/end", http.StatusPermanentRedirect
		case "/there-and-back":
			to = away.URL + "/back"
		case "/loop":
			to = "/loop"
		case "/post-to-get":
			to, status = "/end", http.StatusFound
		case "/inside":
			to = strings.Replace(away.URL, "127.0.0.1", "127.0.0.2", 1)
		case "/file":
			to = "file:///etc/passwd"
		default:
			return
		}
		rw.Header().Set("Location", to)
		rw.WriteHeader(status)
	}
	away.answer = func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			http.Redirect(rw, r, home.URL+"/same", http.StatusTemporaryRedirect)
		}
	}
	for path, want := range map[string]struct {
		last   *hook // who gets the update in the end, with or without secrets
		secret bool
		says   string // or why nobody does
	}{
		"/same":           {last: home, secret: true},
		"/away":           {last: away},
		"/there-and-back": {last: home},
		"/loop":           {says: "redirected more than 3 times"},
		"/post-to-get":    {says: "answered 302"},
		"/inside":         {says: "this machine"},
		"/file":           {says: "redirect"},
	} {
		t.Run(path, func(t *testing.T) {
			for _, h := range []*hook{home, away} {
				h.mu.Lock()
				h.got = nil
				h.mu.Unlock()
			}
			task := w.open()
			c := task.set(d, home.URL+path, secrets)
			task.say("one")
			if want.says != "" {
				eventually(t, func() bool { return task.delivery(d, c.GetId()).Failed })
				if got := task.delivery(d, c.GetId()).LastError; !strings.Contains(got, want.says) {
					t.Errorf("it failed because %q, want %q", got, want.says)
				}
				if n := len(away.requests()); n > 0 {
					t.Errorf("the other host got %d requests", n)
				}
				return
			}
			task.complete()
			eventually(t, func() bool { return len(task.configs(d)) == 0 })
			got := want.last.requests()
			last := got[len(got)-1]
			if last.path != "/end" || word(last.update) != "COMPLETED" {
				t.Errorf("the last request was for %s with %v", last.path, last.update)
			}
			for _, name := range []string{"Authorization", "A2A-Notification-Token", "X-A2A-Notification-Token"} {
				if has := last.header.Get(name) != ""; has != want.secret {
					t.Errorf("%s is there: %v, want %v", name, has, want.secret)
				}
			}
			for _, r := range away.requests() {
				if s := r.header.Get("Authorization") + r.header.Get("A2A-Notification-Token"); s != "" {
					t.Errorf("the other host learned %q", s)
				}
			}
		})
	}
}
