package cards_test

import (
	"math"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/security/cards"
)

// The example of A2A v1.0 §8.4.1 on presence, with the required fields that it
// leaves out: what is required stays although it is empty, what is optional
// stays when it is set to its default, and the rest goes.
func TestTheCanonicalFormKeepsWhatIsRequiredOrSet(t *testing.T) {
	got, err := cards.Canonical(&a2apb.AgentCard{
		Name: "Example Agent", Capabilities: &a2apb.AgentCapabilities{Streaming: proto.Bool(false), PushNotifications: proto.Bool(false)},
		SupportedInterfaces: []*a2apb.AgentInterface{{Url: "h:1", ProtocolBinding: "GRPC"}},
		Signatures:          []*a2apb.AgentCardSignature{{Protected: "p"}},
	})
	want := `{"capabilities":{"pushNotifications":false,"streaming":false},"defaultInputModes":[],"defaultOutputModes":[],` +
		`"description":"","name":"Example Agent","skills":[],` +
		`"supportedInterfaces":[{"protocolBinding":"GRPC","protocolVersion":"","url":"h:1"}],"version":""}`
	if err != nil || string(got) != want {
		t.Errorf("%s (%v), want\n%s", got, err, want)
	}
}

func TestTheCanonicalFormIsThatOfRFC8785(t *testing.T) {
	got, err := cards.Canonical(full(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"params":{"a":[null,true,0.1],"z":1e+21,"ü":"<&>` + "\u2028" + `"}`,
		`"name":"Crème brûlée"`, `"a <b> & \"c\""`, `"tls":{"mtlsSecurityScheme":{}}`,
		`"clientCredentials":{"scopes":{},"tokenUrl":"https://t.example"}`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s\nis not in\n%s", want, got)
		}
	}
}

func TestACardThatJSONCannotHoldIsRefused(t *testing.T) {
	card := full(t)
	card.Capabilities.Extensions[0].Params.Fields["z"] = structpb.NewNumberValue(math.Inf(1))
	if _, err := cards.Canonical(card); !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != "card" {
		t.Errorf("%v, want Invalid of the field card", err)
	}
}

// FuzzCanonical checks that the canonical form is one: it means the same card,
// and that card has the same form.
func FuzzCanonical(f *testing.F) {
	seed, err := protojson.Marshal(full(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"name":"\ud83d\ude00","capabilities":{"extensions":[{"params":{"a":-0,"b":1e300}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var card, back a2apb.AgentCard
		if protojson.Unmarshal(data, &card) != nil {
			return
		}
		first, err := cards.Canonical(&card)
		if err != nil {
			return
		}
		if err := protojson.Unmarshal(first, &back); err != nil {
			t.Fatalf("%s is no card: %v", first, err)
		}
		second, err := cards.Canonical(&back)
		if err != nil || string(first) != string(second) {
			t.Errorf("%s\nbecame\n%s (%v)", first, second, err)
		}
	})
}
