package skill_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// S3-076: whatever happens to the files, in whatever order: after a reload the
// library has what one has that is opened now, and so neither loses nor doubles
// a skill.
func TestLibrary_Reload_hasWhatIsThere(t *testing.T) {
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := library(t, nil)
		for step := range 25 {
			s.disturb(t, r, step)
			s.reload(t)
			fresh, err := skill.OpenLibrary(skill.LibraryOptions{Folders: []string{s.dir}, TenantDir: s.tenants})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := contents(s.Library), contents(fresh); got != want {
				t.Fatalf("seed %d, step %d:\n%s\nwant\n%s", seed, step, got, want)
			}
		}
	}
}

// disturb does something to a file of the library. What it writes is valid.
func (s *shelf) disturb(t *testing.T, r *rand.Rand, step int) {
	t.Helper()
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	folder, action := pick("", "@acme/")+pick("a", "b", "c/d"), pick("x", "y", "z")
	domain, _, _ := strings.Cut(strings.TrimPrefix(folder, "@acme/"), "/")
	file := folder + "/" + action + ".md"
	switch r.IntN(8) {
	case 0, 1:
		s.write(t, file, page(domain+"."+action, fmt.Sprint("in step ", step), ""))
	case 2:
		s.remove(t, file)
	case 3:
		s.remove(t, folder)
	case 4:
		_ = os.Rename(s.path(file), s.path(file)+".bak") // which may not be there
	case 5:
		s.write(t, folder+"/SKILL.md", fmt.Sprintf("---\ndomain: %s\ndescription: in step %d\n---\n", domain, step))
	case 6:
		s.write(t, folder+"/own-"+action+"/SKILL.md", fmt.Sprintf("---\nname: own-%s\ndescription: in step %d\n---\nx", action, step))
		s.write(t, filepath.Join(folder, "own-"+action, "references", fmt.Sprint(step)), "")
	case 7:
		s.remove(t, folder+"/own-"+action+"/SKILL.md")
	}
}

// contents is all that can be seen of a library.
func contents(l *skill.Library) string {
	var b strings.Builder
	for _, t := range []mesh.TenantID{"", "acme"} {
		for _, sk := range l.For(t).List() {
			fmt.Fprintln(&b, t, sk.Name, sk.Version, sk.Path, sk.Tenant, sk.Files)
		}
		for _, d := range l.For(t).Domains() {
			fmt.Fprintln(&b, t, d.Domain, d.Description, d.Skills)
		}
		for _, p := range l.Problems(t) {
			fmt.Fprintln(&b, t, p)
		}
	}
	return b.String()
}
