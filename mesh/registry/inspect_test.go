package registry

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
)

// Cards as frameworks write them, of both versions, and what they are warned of.
var foreignCards = map[string]struct {
	json string
	at   string
	of   []string // fields, in order
}{
	"fasta2a, no skills": {`{"name":"Agent","description":"An AI agent exposed as an A2A agent.","version":"1.0.0",
		"supportedInterfaces":[{"protocolBinding":"JSONRPC","url":"http://localhost:8000","protocolVersion":"1.0"}],
		"skills":[],"defaultInputModes":["application/json"],"defaultOutputModes":["application/json"],"capabilities":{"streaming":true,"pushNotifications":false}}`,
		"http://localhost:8000", []string{"card.skills"}},
	"strands, of v0.3 with nulls": {`{"additionalInterfaces":null,"capabilities":{"extensions":null,"streaming":true},"defaultInputModes":["text"],"defaultOutputModes":["text"],
		"description":"d","name":"Strands Agent","preferredTransport":"JSONRPC","protocolVersion":"0.3.0","provider":null,"security":[{"bearer":[]}],
		"securitySchemes":{"bearer":{"bearerFormat":null,"scheme":"bearer","type":"http"}},"signatures":null,
		"skills":[{"description":"","examples":null,"id":"calculator","name":"calculator","tags":[]}],"url":"http://127.0.0.1:9000/","version":"0.0.1"}`,
		"http://127.0.0.1:9000/", []string{"card.skills[0].description", "card.skills[0].tags", "card.securityRequirements"}},
	"agent framework, what is empty left out": {`{"name":"AF Agent","supportedInterfaces":[{"url":"http://127.0.0.1:9000/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":true}}`,
		"http://127.0.0.1:9000/", []string{"card.description", "card.version", "card.defaultInputModes", "card.defaultOutputModes", "card.skills"}},
	"langgraph, a url beside the interfaces": {`{"name":"g","description":"d","url":"http://h:1/a2a/x","supportedInterfaces":[{"url":"http://h:1/a2a/x","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
		"capabilities":{"streaming":true,"stateTransitionHistory":false,"extensions":[]},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"version":"1",
		"skills":[{"id":"s","name":"s","description":"d","tags":["t"],"examples":[],"inputModes":["text/plain"],"metadata":{"x":1}}]}`, "http://h:1/a2a/x", nil},
	"the least of v0.3": {`{"name":"a","url":"http://h:1/"}`, "http://h:1/",
		[]string{"card.description", "card.version", "card.capabilities", "card.defaultInputModes", "card.defaultOutputModes", "card.skills"}},
	"the least of v1.0": {`{"name":"a","supportedInterfaces":[{"url":"dns:///h:1","protocolBinding":"grpc"}]}`, "h:1",
		[]string{"card.description", "card.version", "card.capabilities", "card.defaultInputModes", "card.defaultOutputModes", "card.supportedInterfaces[0].protocolVersion", "card.skills"}},
	"only additional interfaces": {about(`"protocolVersion":"0.3.0","additionalInterfaces":[{"url":"grpcs://h:2","transport":"GRPC"}]`), "grpcs://h:2", nil},
	"a transport by another name": {about(`"protocolVersion":"v0.3.0","url":"http://h:1/","preferredTransport":"json-rpc"`), "http://h:1/",
		[]string{"card.supportedInterfaces[0].protocolBinding", "card.supportedInterfaces[0].protocolVersion"}},
	"REST by another name": {about(`"protocolVersion":"0.3.0","url":"https://h/v1","preferredTransport":"http_json"`), "https://h/v1", []string{"card.supportedInterfaces[0].protocolBinding"}},
	"an older version":     {about(`"protocolVersion":"0.2.6","url":"http://h:1/"`), "http://h:1/", []string{"card.supportedInterfaces[0].protocolVersion"}},
	"interfaces for others": {about(`"supportedInterfaces":[{"url":"amqp://h","protocolBinding":"AMQP","protocolVersion":"1.0"},{"protocolBinding":"GRPC","protocolVersion":"1.0"},
		{"url":"h:1","protocolBinding":"JSONRPC","protocolVersion":"1.0"},{"url":"h:3","protocolBinding":"GRPC","protocolVersion":"1.0"}]`), "h:3",
		[]string{"card.supportedInterfaces[0].protocolBinding", "card.supportedInterfaces[1].url", "card.supportedInterfaces[2].url"}},
	"skills without what tells them apart": {`{"name":"a","url":"http://h:1/","description":"d","version":"1","capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
		"skills":[{},{"id":"x","name":"n","description":"d","tags":["t"]},{"id":"x","name":"n","description":"d","tags":["t"]}]}`, "http://h:1/",
		[]string{"card.skills[0].id", "card.skills[0].name", "card.skills[0].description", "card.skills[0].tags", "card.skills[2].id"}},
	"credentials if one likes": {about(`"url":"http://h:1/","security":[{"key":[]},{}]`), "http://h:1/", nil},
}

// about is the JSON of a card with nothing odd but these members.
func about(members string) string {
	return `{"name":"a","description":"d","version":"1","capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
		"skills":[{"id":"s","name":"s","description":"s","tags":["t"]}],` + members + `}`
}

// finding N4: agents join with the cards that their frameworks write, and are warned of
// what is odd, each by its field.
func TestCardsOfFrameworksJoin(t *testing.T) {
	for name, tt := range foreignCards {
		t.Run(name, func(t *testing.T) {
			card, err := decodeCard("", []byte(tt.json))
			if err != nil {
				t.Fatal(err)
			}
			n, s := newNetwork(), newShelf()
			n.serve(wellKnown, card)
			got, err := open(t, n, s).Register(t.Context(), principal(acme), Request{CardURL: "dns:///far:80"})
			if err != nil || got.Entry.Endpoint != tt.at || !got.Entry.Live {
				t.Fatalf("Register = %+v, %v; want it at %s", got.Entry, err, tt.at)
			}
			var of []string
			for _, w := range got.Entry.Warnings {
				if of = append(of, w.Field); w.Text == "" || strings.Contains(w.Text, "%!") {
					t.Errorf("warning of %s is %q", w.Field, w.Text)
				}
			}
			if diff := cmp.Diff(tt.of, of); diff != "" {
				t.Errorf("warned of (-want +got):\n%s", diff)
			}
			for i, in := range got.Entry.Card.GetSupportedInterfaces() {
				if bound, version := spoken(in); got.Entry.at(in) && (in.GetProtocolBinding() != bound || in.GetProtocolVersion() != version) {
					t.Errorf("interface %d is %v; want it as those read it who call the agent", i, in)
				}
			}
			kept, err := open(t, n, s).Get(acme, got.Entry.Name)
			if err != nil || !cmp.Equal(kept.Warnings, got.Entry.Warnings) {
				t.Errorf("after a restart the warnings are %v, %v", kept.Warnings, err)
			}
		})
	}
}

// finding N4: the warnings are of the card as it is, not as it was.
func TestWarningsFollowTheCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := newNetwork(), newShelf()
		bare := published("far", "far:90")
		bare.Skills = nil
		n.serve(wellKnown, bare)
		r := open(t, n, s)
		start(t, r)
		if got, err := r.Register(t.Context(), principal(acme), Request{CardURL: "far:80"}); err != nil || len(got.Entry.Warnings) != 1 {
			t.Fatalf("Register = %+v, %v; want one warning", got, err)
		}
		for _, of := range []string{"", "card.version"} {
			better := published("far", "far:90")
			if of != "" {
				better.Version = ""
			}
			n.serve(wellKnown, better)
			time.Sleep(recheck)
			synctest.Wait()
			for where, from := range map[string]*Registry{"now": r, "after a restart": open(t, n, s)} {
				e, err := from.Get(acme, "far")
				if err != nil || (of == "") != (len(e.Warnings) == 0) || of != "" && e.Warnings[0].Field != of {
					t.Errorf("%s it is warned of %v, %v; want %q", where, e.Warnings, err, of)
				}
			}
		}
	})
}

func TestWarningsAreNotWithoutEnd(t *testing.T) {
	card := card("many")
	for range 1000 {
		card.Skills = append(card.Skills, &a2apb.AgentSkill{})
	}
	warnings, err := Inspect(card)
	if err != nil || len(warnings) != maxWarnings+1 || warnings[maxWarnings].Field != "card" {
		t.Errorf("%d warnings, the last %v, %v", len(warnings), warnings[len(warnings)-1], err)
	}
}

// finding N12: all spellings of a gRPC server's address are called where they say, and
// are checked there, as an interface of the card and beside it.
func TestAddressesOfGRPCAreOneHoweverTheyAreWritten(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "agents.example", "10.1.2.3", "[2001:db8::1]"} {
		for spelling, want := range map[string]string{
			"%s:7000": "%s:7000", "dns:///%s:7000": "%s:7000", "DNS:///%s:7000": "%s:7000", "grpc://%s:7000": "%s:7000", "http://%s:7000/": "%s:7000",
			"grpcs://%s:7000": "grpcs://%s:7000", "https://%s:7000": "grpcs://%s:7000", "https://%s": "grpcs://%s:443", "dns:///%s": "%s:443",
			"dns://10.0.0.7/%s:7000": "", "dns:////%s:7000": "", "ftp://%s:7000": "", "unix:///%s:7000": "", "https://%s:7000/x": "", "http://u:p@%s:7000": "",
		} {
			at := fmt.Sprintf(spelling, host)
			if want != "" {
				want = fmt.Sprintf(want, host)
			}
			for how, req := range map[string]Request{"beside the card": {Card: card("x"), Endpoint: at}, "on the card": {Card: published("x", at)}} {
				var checked []string
				r, err := New(t.Context(), Options{Probe: newNetwork().probe, Check: func(a string) error {
					checked = append(checked, a)
					return nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				got, err := r.Register(t.Context(), principal(acme), req)
				switch {
				case want == "":
					wantCode(t, err, mesh.Invalid, "host:port")
				case err != nil || got.Entry.Endpoint != want || len(checked) == 0 || checked[0] != want:
					t.Errorf("%s %s: it is at %s, %v was checked, %v; want %s", at, how, got.Entry.Endpoint, checked, err, want)
				}
			}
		}
	}
}

// finding N4: whatever a card holds, nothing panics, and what joins has a place where it is
// called and that was checked; what does not names the field.
func FuzzForeignCards(f *testing.F) {
	for _, c := range foreignCards {
		f.Add([]byte(c.json))
	}
	f.Add([]byte(goodCard))
	f.Fuzz(func(t *testing.T, data []byte) {
		card, err := decodeCard("", data)
		if err != nil {
			return
		}
		before := proto.CloneOf(card)
		checked := map[string]bool{}
		n := newNetwork()
		n.serve(wellKnown, card)
		r, err := New(t.Context(), Options{Probe: n.probe, Fetch: n.fetch, Check: func(at string) error {
			checked[at] = true
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Register(t.Context(), principal(acme), Request{CardURL: "far:80"})
		if !proto.Equal(before, card) {
			t.Fatal("the card was changed")
		}
		if err != nil {
			if !mesh.IsCode(err, mesh.Invalid) || !strings.HasPrefix(fieldOf(err), "card") || mesh.DetailOf(err) == "" {
				t.Fatalf("error %v does not name what is wrong", err)
			}
			return
		}
		for _, at := range got.Entry.addresses() {
			if u, err := url.Parse(at); !validAddress(at) && (err != nil || u.Hostname() == "") || !checked[at] {
				t.Fatalf("it is called at %q, of which %v was checked", at, checked)
			}
		}
		if !got.Entry.at(got.Entry.Card.GetSupportedInterfaces()[0]) && len(got.Entry.Card.GetSupportedInterfaces()) == 1 || !mesh.ValidAgentName(got.Entry.Name) {
			t.Fatalf("it joined as %+v", got.Entry)
		}
	})
}
