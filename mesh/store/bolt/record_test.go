package bolt

import (
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
)

// What is written has the form that it has had since there is format 2: a change
// needs a migration.
func TestTheFormOfTheFileStays(t *testing.T) {
	key := mesh.ThreadKey{Tenant: "acme", ID: "t"}
	entry := threadlog.Entry{ID: "e", Scope: "x", Decision: true, Claim: 3, Data: []byte("data")}
	opens := threadlog.Entry{ID: "e", Opens: true, Data: []byte("data")}
	at, name := posKey(258), stateKey(state.Key{Tenant: "acme", Kind: "agent", Name: "main"})
	for what, tt := range map[string]struct {
		got  []byte
		want string
	}{
		"a position":       {at, "\x00\x00\x00\x00\x00\x00\x01\x02"},
		"a name":           {name, "acme\x00agent\x00main"},
		"names of a kind":  {kindKey("acme", "agent"), "acme\x00agent\x00"},
		"a record":         {encode(at, record{key, 300, 0, opens}), "_\xa59\x99\x02\xac\x02\x00\x04acme\x01t\x01e\x00data"},
		"one that settles": {encode(at, record{key, 300, 7, entry}), "\x0e\x10\x88=\x05\xac\x02\x03\x07\x04acme\x01t\x01e\x01xdata"},
		"a value":          {encodeValue(name, []byte("data"), 300), "\x15\x8f\xd5\xd3\xac\x02data"},
	} {
		if string(tt.got) != tt.want {
			t.Errorf("%s is %q, want %q", what, tt.got, tt.want)
		}
	}
}
