package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog/logtest"
)

// finding R11: whoever cuts off a file of the folder while it is in use ends the store, in
// words: reads of what is gone fail and do not end the process, what is in the rest is read,
// and nothing is written behind the hole.
func TestAFileThatIsCutOffInUseEndsTheStore(t *testing.T) {
	for name, tt := range map[string]struct {
		file func(t *testing.T, path string) string
		read func(t *testing.T, s *Store) error
	}{
		"of values": {
			func(_ *testing.T, path string) string { return path },
			func(t *testing.T, s *Store) error {
				_, err := s.GetState(t.Context(), state.Key{Kind: "k", Name: "n"})
				return err
			},
		},
		"of the log": {
			func(t *testing.T, path string) string { return logFiles(t, path)[0] },
			func(t *testing.T, s *Store) error {
				_, err := s.Read(t.Context(), logtest.Key(1), 0, 9)
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "mesh.db")
			s := openAt(t, path)
			if _, err := s.Append(t.Context(), logtest.Key(1), fact("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := s.PutState(t.Context(), state.Key{Kind: "k", Name: "n"}, []byte("v"), 0); err != nil {
				t.Fatal(err)
			}
			s.checkpoint()
			well := s.Health()
			if err := os.Truncate(tt.file(t, path), 0); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second one waits for no lock of the first
				if err := tt.read(t, s); !mesh.IsCode(err, mesh.Unavailable) {
					t.Errorf("what is gone reads %v", err)
				}
			}
			<-well.Changed
			if h := s.Health(); !h.Final || !strings.Contains(mesh.DetailOf(h.Fault), "cut off while it was in use") {
				t.Errorf("its health is %+v", h)
			}
			if _, err := s.Append(t.Context(), logtest.Key(1), fact("y")); !mesh.IsCode(err, mesh.Unavailable) {
				t.Errorf("an append: %v", err)
			}
			if h := s.Health(); !h.Final {
				t.Errorf("after an append its health is %+v", h)
			}
		})
	}
}
