package calendar

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-ical"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
)

// The values of Invitation.Method.
const (
	methodRequest = "REQUEST"
	methodCancel  = "CANCEL"
)

// An Invitation is what those who take part are told of an event by mail (RFC 6047).
type Invitation struct {
	// Method is REQUEST for an event that is new or changed, or CANCEL.
	Method        string
	To            []string
	Subject, Text string
	// Data are the event, in the form of iCalendar.
	Data []byte
}

// A Post sends invitations by mail. It is used concurrently.
type Post interface {
	// Sender is the address from which mail of the user of env goes out, "" if none does.
	Sender(env *skill.Env) string
	// Invite sends the invitation, once per key, and returns what became of it in words, and whether
	// it certainly went out.
	Invite(ctx context.Context, env *skill.Env, key string, i Invitation) (words string, sent bool, err error)
}

// WithPost has invitations sent by mail where a calendar server does not send them itself. By
// default there are none.
func WithPost(p Post) Option { return func(c *calendar) { c.post = p } }

// A host says who invites to an event.
type host struct {
	address  string // the organizer
	byServer bool   // the calendar server tells everybody, of changes too
	onServer bool   // the event is on a calendar server, which is to tell nobody
}

// host returns who invites to events of the place; nil if the call wants nobody invited.
func (c calendar) host(ctx context.Context, call *skill.Call, env *skill.Env, at place) (*host, error) {
	invite, err := flags.Bool(call, "invite")
	if !invite || err != nil {
		return nil, err
	}
	s, onServer := at.(server)
	if onServer {
		address, err := s.Inviter(ctx)
		if err != nil {
			return nil, mesh.Wrap(call.Skill, err)
		}
		if address != "" {
			return &host{address: address, byServer: true}, nil
		}
	}
	if c.post != nil {
		if address := c.post.Sender(env); address != "" {
			return &host{address: address, onServer: onServer}, nil
		}
	}
	return nil, mesh.Errorf(mesh.Precondition, call.Skill, "There is no mail server by which invitations could be sent; leave out --invite, or tell the operator of the mesh")
}

// paramAgent says of an attendee who sends invitations: the server, unless it is CLIENT (RFC 6638
// §7.1). It is for the server alone.
const paramAgent = "SCHEDULE-AGENT"

// organize makes the host the organizer of the event. Who is invited by another one cannot invite.
func (h *host) organize(ev *ical.Event, call *skill.Call) error {
	if p := ev.Props.Get(ical.PropOrganizer); p != nil {
		if by := addressOf(*p); !strings.EqualFold(by, h.address) {
			return mesh.Errorf(mesh.Precondition, call.Skill, "%s invites to this event; leave out --invite, and ask them", mesh.Clip(by, maxShown))
		}
	} else {
		p := ical.NewProp(ical.PropOrganizer)
		p.Value = "mailto:" + h.address
		ev.Props.Set(p)
	}
	for i, p := range ev.Props[ical.PropAttendee] {
		p.Params = maps.Clone(p.Params)
		if p.Params == nil {
			p.Params = ical.Params{}
		}
		if p.Params.Get(ical.ParamParticipationStatus) == "" {
			p.Params.Set(ical.ParamParticipationStatus, "NEEDS-ACTION")
			p.Params.Set(ical.ParamRSVP, "TRUE")
		}
		p.Params.Del(paramAgent)
		if h.onServer {
			p.Params.Set(paramAgent, "CLIENT")
		}
		ev.Props[ical.PropAttendee][i] = p
	}
	return nil
}

// An outcome is what became of telling those who take part. The zero value is that nothing did.
type outcome struct {
	words string
	sure  bool // they are told
}

// in adds the outcome to the result, under that name.
func (o outcome) in(r *skill.Result, name string) *skill.Result {
	if o.words != "" {
		r.Content += o.words
		r.Metadata[name] = o.sure
	}
	return r
}

// tell sends what the method says of the event, or of one of its dates.
func (c calendar) tell(ctx context.Context, call *skill.Call, env *skill.Env, h *host, s *series, date, method string) (outcome, error) {
	if h.byServer {
		return outcome{" The calendar server tells the attendees.", true}, nil
	}
	ev, e := s.master, s.event
	if date != "" {
		var err error
		if ev, e, err = s.at(date); err != nil {
			return outcome{}, err
		}
	}
	to := slices.DeleteFunc(slices.Clone(e.attendees), func(a string) bool { return strings.EqualFold(a, h.address) })
	if len(to) == 0 {
		return outcome{}, mesh.Errorf(mesh.Precondition, call.Skill, "The event %q has no attendees to invite; name them with --attendees", e.title)
	}
	data, err := s.message(ev, date, method, h, call, env.Now())
	if err != nil {
		return outcome{}, mesh.Errorf(mesh.Precondition, call.Skill, "The event was written by another program in a way that cannot be sent: %w", err)
	}
	subject, text := "Invitation: ", "You are invited to"
	if method == methodCancel {
		subject, text = "Cancelled: ", "Cancelled is"
	}
	text += fmt.Sprintf(" %q on %s.", e.title, e.when())
	if e.location != "" {
		text += "\nWhere: " + e.location
	}
	if e.description != "" {
		text += "\n\n" + e.description
	}
	words, sent, err := c.post.Invite(ctx, env, call.Key+"/"+method, Invitation{Method: method, To: to, Subject: mesh.Clip(subject+e.title, maxSubject), Text: text, Data: data})
	return outcome{" " + words, sent}, err
}

// maxSubject is how many bytes of an event's title are the subject of a mail.
const maxSubject = 400

// message is the event as it is sent: without what only this program reads.
func (s *series) message(ev *ical.Event, date, method string, h *host, call *skill.Call, now time.Time) ([]byte, error) {
	cal := ical.NewCalendar()
	cal.Props.SetText(ical.PropVersion, "2.0")
	cal.Props.SetText(ical.PropProductID, product)
	cal.Props.SetText(ical.PropMethod, method)
	sent := host{address: h.address}
	for _, child := range s.cal.Children {
		one := *child
		if child.Name == ical.CompEvent {
			if date != "" && child != ev.Component {
				continue
			}
			one.Props = maps.Clone(child.Props)
			one.Props[ical.PropAttendee] = slices.Clone(child.Props[ical.PropAttendee])
			one.Props.Del(propKey)
			said := &ical.Event{Component: &one}
			if err := sent.organize(said, call); err != nil {
				return nil, err
			}
			if method == methodCancel { // which is not the change yet that it tells of
				revise(said, now)
				one.Props.SetText(ical.PropStatus, string(ical.EventCancelled))
			}
		} else if child.Name != ical.CompTimezone {
			continue
		}
		cal.Children = append(cal.Children, &one)
	}
	return format(cal)
}
