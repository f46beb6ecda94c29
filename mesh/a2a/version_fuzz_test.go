package a2a_test

import (
	"regexp"
	"testing"
	"unicode/utf8"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
)

// Whatever a caller gives as its version, 1 and 1.x are served and nothing else
// is; none is 1.0, or 0.3 for those who take A2A v1.0 §3.6.2 strictly. A
// refusal is short, and can be shown.
func FuzzVersion(f *testing.F) {
	for _, version := range []string{"", "1", "1.0", "1.0.1", "1.", ".1", "0.3", "10.0", "01.0", "+1.0", " 1.0", "1,0", "v1.0", "\xff", "1\x00"} {
		f.Add(version, false)
		f.Add(version, true)
	}
	first := regexp.MustCompile(`\A1(\.[0-9]+){0,2}\z`)
	lenient, strict := a2a.NewServer(newShelf()), a2a.NewServer(newShelf(), a2a.WithStrictVersion())
	f.Fuzz(func(t *testing.T, version string, strictly bool) {
		service := lenient
		if strictly {
			service = strict
		}
		_, err := service.GetTask(mesh.WithCall(t.Context(), mesh.Call{Version: version}), &a2apb.GetTaskRequest{Id: "other"})
		e := errorOf(t, err)
		serve := first.MatchString(version) || version == "" && !strictly
		if refused := e.Reason == a2a.ReasonVersionNotSupported; refused == serve {
			t.Fatalf("version %q, strictly %t: %v", version, strictly, err)
		}
		if serve {
			return
		}
		if e.Code != mesh.Precondition || e.Field != "a2a-version" {
			t.Errorf("version %q: got %#v, want Precondition of a2a-version", version, e)
		}
		if len(e.Detail) > 120 || utf8.ValidString(version) && !utf8.ValidString(e.Detail) {
			t.Errorf("version %q: the detail cannot be shown: %q", version, e.Detail)
		}
	})
}
