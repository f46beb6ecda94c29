package davcal

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentmesh/mesh"
)

// A multistatus is an answer of WebDAV (RFC 4918 §13), as far as it is asked for here.
type multistatus struct {
	Responses []struct {
		Href  string `xml:"DAV: href"`
		Props []struct {
			Status string   `xml:"DAV: status"`
			Prop   property `xml:"DAV: prop"`
		} `xml:"DAV: propstat"`
	} `xml:"DAV: response"`
}

type property struct {
	ETag string `xml:"DAV: getetag"`
	Name string `xml:"DAV: displayname"`
	Type struct {
		Calendar *struct{} `xml:"urn:ietf:params:xml:ns:caldav calendar"`
	} `xml:"DAV: resourcetype"`
	Principal struct {
		Href string `xml:"DAV: href"`
	} `xml:"DAV: current-user-principal"`
	Home struct {
		Href string `xml:"DAV: href"`
	} `xml:"urn:ietf:params:xml:ns:caldav calendar-home-set"`
	Addresses struct {
		Hrefs []string `xml:"DAV: href"`
	} `xml:"urn:ietf:params:xml:ns:caldav calendar-user-address-set"`
	Kinds struct {
		Comp []struct {
			Name string `xml:"name,attr"`
		} `xml:"urn:ietf:params:xml:ns:caldav comp"`
	} `xml:"urn:ietf:params:xml:ns:caldav supported-calendar-component-set"`
	Data string `xml:"urn:ietf:params:xml:ns:caldav calendar-data"`
}

// A resource is one of an answer, with what the server tells of it.
type resource struct {
	url *url.URL
	property
}

// holds reports whether the resource is a calendar that takes events.
func (r resource) holds() bool {
	if r.Type.Calendar == nil {
		return false
	}
	for _, c := range r.Kinds.Comp {
		if strings.EqualFold(c.Name, "VEVENT") {
			return true
		}
	}
	return len(r.Kinds.Comp) == 0
}

// ask asks about the resource, and those in it if depth is 1.
func (a *Account) ask(ctx context.Context, method string, at *url.URL, depth int, body string) ([]resource, error) {
	_, data, err := a.do(ctx, request{method: method, url: at, body: []byte(xml.Header + body), header: http.Header{
		"Depth": {strconv.Itoa(depth)}, "Content-Type": {"application/xml; charset=utf-8"},
	}})
	if err != nil {
		return nil, err
	}
	var ms multistatus
	if err := xml.Unmarshal(data, &ms); err != nil {
		return nil, mesh.Errorf(mesh.Precondition, "davcal", "There is no calendar at the address of the calendar server %s; check the url. Tell the operator of the mesh: %w", a.url.Hostname(), err)
	}
	var found []resource
	for _, r := range ms.Responses {
		u, err := at.Parse(strings.TrimSpace(r.Href))
		if err != nil {
			continue // nobody could ask for it
		}
		for _, p := range r.Props {
			if p.Status == "" || strings.Contains(p.Status, " 200") {
				found = append(found, resource{url: u, property: p.Prop})
			}
		}
	}
	return found, nil
}

const (
	askCalendars = `<propfind xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><prop><resourcetype/><displayname/><C:supported-calendar-component-set/></prop></propfind>`
	askUser      = `<propfind xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><prop><resourcetype/><displayname/><C:supported-calendar-component-set/><current-user-principal/><C:calendar-home-set/></prop></propfind>`
	askAddresses = `<propfind xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><prop><C:calendar-user-address-set/></prop></propfind>`
	askNames     = `<propfind xmlns="DAV:"><prop><getetag/></prop></propfind>`
	askEvents    = `<C:calendar-query xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><prop><getetag/><C:calendar-data/></prop>` +
		`<C:filter><C:comp-filter name="VCALENDAR"><C:comp-filter name="VEVENT"><C:time-range start="%s" end="%s"/></C:comp-filter></C:comp-filter></C:filter></C:calendar-query>`
)

// calendar finds the calendar, once.
func (a *Account) calendar(ctx context.Context) (*url.URL, error) {
	a.mu.Lock()
	at := a.at
	a.mu.Unlock()
	if at != nil {
		return at, nil
	}
	at, err := a.discover(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = at
	return at, nil
}

// discover goes from the address to the calendar: it is one itself, or has some in it, or the user
// has a place for calendars (RFC 6764, RFC 5397). Servers without a page at their root know the
// way from /.well-known/caldav.
func (a *Account) discover(ctx context.Context) (*url.URL, error) {
	at := a.url
	if strings.Trim(at.Path, "/") == "" {
		if known := at.JoinPath(".well-known/caldav"); a.answers(ctx, known) {
			at = known
		}
	}
	var home string
	for range 3 { // the address, the user, the user's calendars
		here, err := a.ask(ctx, "PROPFIND", at, 0, askUser)
		if err != nil {
			return nil, err
		}
		next := ""
		for _, r := range here {
			if r.holds() {
				return r.url, nil
			}
			next, home = first(next, r.Principal.Href), first(home, r.Home.Href)
		}
		if home != "" || next == "" {
			break
		}
		if at, err = at.Parse(next); err != nil {
			return nil, a.noCalendar(nil)
		}
	}
	if home != "" {
		var err error
		if at, err = at.Parse(home); err != nil {
			return nil, a.noCalendar(nil)
		}
	}
	in, err := a.ask(ctx, "PROPFIND", at, 1, askCalendars)
	if err != nil {
		return nil, err
	}
	in = slices.DeleteFunc(in, func(r resource) bool { return !r.holds() })
	return a.choose(in)
}

// answers reports whether the server knows the address.
func (a *Account) answers(ctx context.Context, at *url.URL) bool {
	_, err := a.ask(ctx, "PROPFIND", at, 0, askUser)
	return err == nil
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return strings.TrimSpace(b)
}

// choose takes the calendar of the settings, or the only one.
func (a *Account) choose(all []resource) (*url.URL, error) {
	var names []string
	for _, r := range all {
		name := first(strings.TrimSpace(r.Name), nameOf(r.url))
		if want := a.settings.Calendar; strings.EqualFold(want, name) || want == nameOf(r.url) || want == "" && len(all) == 1 {
			return r.url, nil
		}
		names = append(names, strconv.Quote(mesh.Clip(name, 80)))
	}
	return nil, a.noCalendar(names)
}

func (a *Account) noCalendar(names []string) error {
	host := a.url.Hostname()
	switch {
	case len(names) == 0:
		return mesh.Errorf(mesh.Precondition, "davcal", "There is no calendar at the address of the calendar server %s; check the url. Tell the operator of the mesh", host)
	case a.settings.Calendar == "":
		return mesh.Errorf(mesh.Precondition, "davcal", "The calendar server %s has several calendars: %s. Tell the operator of the mesh, who names one in the setting calendar", host, strings.Join(names, ", "))
	}
	return mesh.Errorf(mesh.Precondition, "davcal", "The calendar server %s has no calendar %q, but %s. Tell the operator of the mesh", host, a.settings.Calendar, strings.Join(names, ", "))
}

// Names lists the objects of the calendar.
func (a *Account) Names(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, a.settings.Timeout)
	defer cancel()
	at, err := a.calendar(ctx)
	if err != nil {
		return nil, err
	}
	found, err := a.ask(ctx, "PROPFIND", at, 1, askNames)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range found {
		if r.ETag != "" && strings.TrimSuffix(r.url.Path, "/") != strings.TrimSuffix(at.Path, "/") {
			names = append(names, nameOf(r.url))
		}
	}
	return names, nil
}

// Within returns the objects that have events between the two moments, as the server finds them.
func (a *Account) Within(ctx context.Context, from, to time.Time) ([]Object, error) {
	const utc = "20060102T150405Z"
	ctx, cancel := context.WithTimeout(ctx, a.settings.Timeout)
	defer cancel()
	at, err := a.calendar(ctx)
	if err != nil {
		return nil, err
	}
	found, err := a.ask(ctx, "REPORT", at, 1, fmt.Sprintf(askEvents, from.UTC().Format(utc), to.UTC().Format(utc)))
	if err != nil {
		return nil, err
	}
	var all []Object
	for _, r := range found {
		if r.Data != "" {
			all = append(all, Object{Name: nameOf(r.url), ETag: r.ETag, Data: []byte(r.Data)})
		}
	}
	return all, nil
}

// Inviter returns the address as which the user invites by the server, which then tells those who
// take part of events (RFC 6638); "" if it does not, or does not say as whom.
func (a *Account) Inviter(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, a.settings.Timeout)
	defer cancel()
	at, err := a.calendar(ctx)
	if err != nil {
		return "", err
	}
	head, _, err := a.do(ctx, request{method: http.MethodOptions, url: at})
	if err != nil || !strings.Contains(strings.Join(head.Values("DAV"), ","), "calendar-auto-schedule") {
		return "", err
	}
	known, err := a.addresses(ctx, at)
	if mesh.IsCode(err, mesh.Unavailable) {
		return "", err
	}
	user := a.settings.User
	switch named := slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, user) }); {
	case named || len(known) == 0 && strings.Contains(user, "@"):
		return user, nil
	case len(known) > 0:
		return known[0], nil
	}
	return "", nil
}

// addresses are those of the user's mail that the server knows.
func (a *Account) addresses(ctx context.Context, calendar *url.URL) (all []string, err error) {
	const scheme = "mailto:"
	found, err := a.ask(ctx, "PROPFIND", calendar, 0, askUser)
	if err != nil {
		return nil, err
	}
	next := ""
	for _, r := range found {
		next = first(next, r.Principal.Href)
	}
	user, err := calendar.Parse(next)
	if err != nil {
		return nil, a.noCalendar(nil)
	}
	if found, err = a.ask(ctx, "PROPFIND", user, 0, askAddresses); err != nil {
		return nil, err
	}
	for _, r := range found {
		for _, href := range r.Addresses.Hrefs {
			if href = strings.TrimSpace(href); len(href) > len(scheme) && strings.EqualFold(href[:len(scheme)], scheme) {
				all = append(all, href[len(scheme):])
			}
		}
	}
	return all, nil
}
