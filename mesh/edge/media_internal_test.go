package edge

import (
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/thread"
)

// A house has agents by name.
type house map[string]registry.Entry

func (h house) Resolve(_ mesh.TenantID, name string) (registry.Entry, error) {
	if a, ok := h[name]; ok {
		return a, nil
	}
	return registry.Entry{}, mesh.Errorf(mesh.NotFound, "house", "there is no %s", name)
}

func (h house) List(mesh.TenantID, registry.Filter) (all []registry.Entry) {
	for _, a := range h {
		all = append(all, a)
	}
	return all
}

func lodger(builtin bool, modes ...string) registry.Entry {
	return registry.Entry{Builtin: builtin, Live: true, Card: &a2apb.AgentCard{DefaultInputModes: modes}}
}

// finding P3: what an agent takes is what its card says, where that is the agent's own
// word: text and JSON alone are what frameworks write on every card, and such agents judge
// for themselves.
func TestAPartIsJudgedByWhoSaysWhatItTakes(t *testing.T) {
	h := house{
		"main": lodger(true, "text/plain"), "painter": lodger(false, "image/*", "text/plain"), "framework": lodger(false, "text/plain"),
		"json": lodger(false, "application/json", "text"), "silent": lodger(false), "own": lodger(true, "application/json"), "studio": lodger(true, "audio/*"),
	}
	raw := func(kind string) *a2apb.Part {
		return &a2apb.Part{MediaType: kind, Content: &a2apb.Part_Raw{Raw: []byte{1}}}
	}
	for name, tt := range map[string]struct {
		agent string
		part  *a2apb.Part
		taken bool
	}{
		"main hands over":           {"", raw("image/png"), true},
		"nobody of the mesh":        {"", raw("video/mp4"), false},
		"no type":                   {"", raw(""), true},
		"main itself":               {"main", raw("image/png"), false},
		"a case of it":              {"painter", raw("image/PNG; q=1"), true},
		"another kind":              {"painter", raw("video/mp4"), false},
		"a framework's default":     {"framework", raw("image/png"), true},
		"another one's":             {"json", raw("image/png"), true},
		"nothing said":              {"silent", raw("image/png"), true},
		"our own":                   {"own", raw("image/png"), false},
		"a kind of our own":         {"studio", raw("audio/wav"), true},
		"data":                      {"own", &a2apb.Part{MediaType: "application/json", Content: &a2apb.Part_Data{}}, true},
		"text is always taken":      {"own", &a2apb.Part{MediaType: "text/plain", Content: &a2apb.Part_Text{Text: "x"}}, true},
		"one that is away":          {"nobody", raw("image/png"), true},
		"a file of text, not taken": {"own", raw("text/csv"), false},
	} {
		e := &Edge{Config: Config{Directory: h, Main: "main", Now: time.Now}}
		in := &intake{call: mesh.Call{Agent: tt.agent}, msg: &a2apb.Message{Parts: []*a2apb.Part{a2a.TextPart("look"), tt.part}}}
		err := e.takes(new(thread.State), in, nil)
		if (err == nil) != tt.taken || err != nil && mesh.FieldOf(err) != "message.parts[1].media_type" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !registry.Accepts("*/*", "video/mp4") || registry.Accepts("video/*", "videos/mp4") {
		t.Error("*/* is anything, and video/* a video")
	}
}
