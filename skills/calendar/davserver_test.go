package calendar_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-ical"
	"github.com/emersion/go-webdav"
	"github.com/emersion/go-webdav/caldav"

	"agentmesh/mesh"
	"agentmesh/skills/calendar"
	"agentmesh/skills/calendar/davcal"
)

// A davServer is a real CalDAV server on loopback, which fails as it is told.
type davServer struct {
	url   string
	roots *x509.CertPool

	mu        sync.Mutex
	calendars []caldav.Calendar
	objects   map[string]string // by path, as they were written
	after     func(r *http.Request) (cut bool)
	user      string   // who logs in
	schedules bool     // says that it sends invitations
	addresses []string // of the user
}

const home = "/ann/calendars/"

func newDAV(t *testing.T, calendars ...string) *davServer {
	t.Helper()
	s := &davServer{user: "ann@example.com", objects: map[string]string{}, roots: x509.NewCertPool()}
	for _, name := range calendars {
		s.calendars = append(s.calendars, caldav.Calendar{Path: home + strings.ToLower(name) + "/", Name: name})
	}
	web := httptest.NewUnstartedServer(s.guard(&caldav.Handler{Backend: backend{s}}))
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	s.url = web.URL
	s.roots.AddCert(web.Certificate())
	return s
}

// guard asks for the password, and breaks connections after what was carried out.
func (s *davServer) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != s.user || password != "s3cret-pw" {
			http.Error(w, "no such password: "+password, http.StatusUnauthorized)
			return
		}
		rec := httptest.NewRecorder()
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.URL.Path == "/ann/" && bytes.Contains(body, []byte("calendar-user-address-set")) { // which the library does not know
			s.tellAddresses(rec)
		} else {
			h.ServeHTTP(rec, r)
		}
		s.mu.Lock()
		after, schedules := s.after, s.schedules
		s.mu.Unlock()
		if after != nil && after(r) {
			panic(http.ErrAbortHandler)
		}
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		if schedules {
			w.Header().Add("DAV", "calendar-auto-schedule")
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
}

func (s *davServer) tellAddresses(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.WriteHeader(http.StatusMultiStatus)
	var hrefs strings.Builder
	for _, a := range s.addresses {
		fmt.Fprintf(&hrefs, "<D:href>%s</D:href>", a)
	}
	_, _ = fmt.Fprintf(w, `<D:multistatus xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><D:response><D:href>/ann/</D:href><D:propstat><D:prop>`+
		`<C:calendar-user-address-set>%s</C:calendar-user-address-set></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>`, &hrefs)
}

// account returns one for what the users of the default tenant share.
func (s *davServer) account(t *testing.T, change ...func(*davcal.Settings)) calendar.Option {
	t.Helper()
	c := davcal.Settings{URL: s.url, User: s.user, Password: "s3cret-pw", Roots: s.roots, Timeout: 10 * time.Second}
	for _, f := range change {
		f(&c)
	}
	a, err := davcal.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return calendar.WithAccount(mesh.Owner{Tenant: mesh.DefaultTenant}, a)
}

// put has another program write an object of those lines into the first calendar.
func (s *davServer) put(name, lines string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[s.calendars[0].Path+name] = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//EN\r\n" + strings.ReplaceAll(lines, "\n", "\r\n") + "END:VCALENDAR\r\n"
}

func (s *davServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *davServer) all() (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range s.objects {
		texts = append(texts, text)
	}
	return texts
}

// A backend keeps objects as they are written.
type backend struct{ *davServer }

func answer(code int, words string) error { return webdav.NewHTTPError(code, errors.New(words)) }

func (b backend) CurrentUserPrincipal(context.Context) (string, error) { return "/ann/", nil }
func (b backend) CalendarHomeSetPath(context.Context) (string, error)  { return home, nil }
func (b backend) CreateCalendar(context.Context, *caldav.Calendar) error {
	return answer(http.StatusForbidden, "no")
}

func (b backend) ListCalendars(context.Context) ([]caldav.Calendar, error) { return b.calendars, nil }

func (b backend) GetCalendar(_ context.Context, at string) (*caldav.Calendar, error) {
	for _, c := range b.calendars {
		if path.Clean(c.Path) == path.Clean(at) {
			return &c, nil
		}
	}
	return nil, answer(http.StatusNotFound, "no calendar")
}

func (b backend) object(at string) (*caldav.CalendarObject, error) {
	text, ok := b.objects[at]
	if !ok {
		return nil, answer(http.StatusNotFound, "no object")
	}
	cal, err := ical.NewDecoder(strings.NewReader(text)).Decode()
	if err != nil {
		return nil, err
	}
	return &caldav.CalendarObject{Path: at, ETag: fmt.Sprintf("%x", len(text)), ContentLength: int64(len(text)), Data: cal}, nil
}

func (b backend) GetCalendarObject(_ context.Context, at string, _ *caldav.CalendarCompRequest) (*caldav.CalendarObject, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.object(at)
}

func (b backend) ListCalendarObjects(_ context.Context, at string, _ *caldav.CalendarCompRequest) (all []caldav.CalendarObject, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range b.objects {
		if o, err := b.object(p); err == nil && strings.HasPrefix(p, path.Clean(at)+"/") {
			all = append(all, *o)
		}
	}
	return all, nil
}

// QueryCalendarObjects finds what servers that know the exceptions of a series find; the
// library's filter does not.
func (b backend) QueryCalendarObjects(ctx context.Context, at string, q *caldav.CalendarQuery) ([]caldav.CalendarObject, error) {
	all, err := b.ListCalendarObjects(ctx, at, nil)
	if err != nil {
		return nil, err
	}
	var found []caldav.CalendarObject
	for _, o := range all {
		if in, err := caldav.Match(q.CompFilter, &o); in || err != nil {
			found = append(found, o)
		}
	}
	return found, nil
}

func (b backend) PutCalendarObject(_ context.Context, at string, cal *ical.Calendar, o *caldav.PutCalendarObjectOptions) (*caldav.CalendarObject, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, err := b.object(at)
	etag, _ := o.IfMatch.ETag()
	if o.IfNoneMatch.IsWildcard() && err == nil || o.IfMatch.IsSet() && (err != nil || was.ETag != etag) {
		return nil, answer(http.StatusPreconditionFailed, "it is otherwise")
	}
	if _, _, err := caldav.ValidateCalendarObject(cal); err != nil {
		return nil, answer(http.StatusBadRequest, err.Error())
	}
	var text bytes.Buffer
	if err := ical.NewEncoder(&text).Encode(cal); err != nil {
		return nil, err
	}
	b.objects[at] = text.String()
	return b.object(at)
}

func (b backend) DeleteCalendarObject(_ context.Context, at string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.objects[at]; !ok {
		return answer(http.StatusNotFound, "no object")
	}
	delete(b.objects, at)
	return nil
}
