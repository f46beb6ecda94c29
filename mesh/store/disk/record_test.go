package disk

import (
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
)

// What is written has the form that it has had since folders have version 2: a
// change needs a migration.
func TestTheFormOfWhatIsWrittenStays(t *testing.T) {
	key := mesh.ThreadKey{Tenant: "acme", ID: "t"}
	entry := threadlog.Entry{ID: "e", Scope: "x", Decision: true, Claim: 3, Data: []byte("data")}
	opens := threadlog.Entry{ID: "e", Opens: true, Data: []byte("data")}
	main := state.Key{Tenant: "acme", Kind: "agent", Name: "main"}
	name := stateKey(main)
	for what, tt := range map[string]struct {
		got  []byte
		want string
	}{
		"a name":            {name, "acme\x00agent\x00main"},
		"names of a kind":   {kindKey("acme", "agent"), "acme\x00agent\x00"},
		"an event":          {encode(nil, record{key, 300, 0, opens}), "\x02\xac\x02\x00\x04acme\x01t\x01e\x00data"},
		"one that settles":  {encode(nil, record{key, 300, 7, entry}), "\x05\xac\x02\x03\x07\x04acme\x01t\x01e\x01xdata"},
		"a deletion":        {encodeKey(key), "\x04acme\x01t"},
		"a change":          {(&change{key: main, data: []byte("data"), next: 300}).record().Data, "\x0facme\x00agent\x00main\xac\x02data"},
		"a value that goes": {(&change{key: main, remove: true}).record().Data, "\x0facme\x00agent\x00main\x00"},
		"a value":           {encodeValue(name, []byte("data"), 300), "\x15\x8f\xd5\xd3\xac\x02data"},
	} {
		if string(tt.got) != tt.want {
			t.Errorf("%s is %q, want %q", what, tt.got, tt.want)
		}
	}
}
