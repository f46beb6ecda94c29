package skill

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// manySkills is how many skills the benchmarks have, in domains of a hundred.
const manySkills = 10_000

func manyName(i int) string { return fmt.Sprintf("domain_%d.skill_%d", i/100, i%100) }

// manyFile is a file of usual length.
func manyFile(i int, description string) string {
	return "---\nname: " + manyName(i) + "\ndescription: " + description + "\ntags: [first, second, third]\nparameters:\n" +
		"  - name: to\n    type: array\n    required: true\n    description: Who gets it\n" +
		"  - name: priority\n    enum: [low, high]\n    default: low\n---\n\n# Skill\n\n" + strings.Repeat("What it does, in some words.\n", 20)
}

func manyPath(i int) string { return strings.Replace(manyName(i), ".", "/", 1) + ".md" }

func many(b *testing.B) *Catalog {
	b.Helper()
	all := make([]*Skill, manySkills)
	for i := range all {
		s, err := Parse("", []byte(manyFile(i, fmt.Sprintf("Does the thing number %d", i))))
		if err != nil {
			b.Fatal(err)
		}
		all[i] = s
	}
	c := new(Catalog)
	c.Put(all...)
	return c
}

func manyOnDisk(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	for i := range manySkills {
		save(b, filepath.Join(dir, manyPath(i)), manyFile(i, "Does something"))
	}
	return dir
}

// BenchmarkLoad reads 10,000 skills at start.
func BenchmarkLoad(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		files := make(fstest.MapFS)
		for i := range manySkills {
			files[manyPath(i)] = &fstest.MapFile{Data: []byte(manyFile(i, "Does something"))}
		}
		for b.Loop() {
			if c, problems := Load(files); c.Len() != manySkills || len(problems) != 0 {
				b.Fatal(problems)
			}
		}
	})
	b.Run("disk", func(b *testing.B) {
		dir := manyOnDisk(b)
		for b.Loop() {
			l, err := OpenLibrary(LibraryOptions{Folders: []string{dir}})
			if err != nil || l.For("").Len() != manySkills {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkGet looks up one of 10,000 skills, as a tenant with own ones.
func BenchmarkGet(b *testing.B) {
	shared := many(b)
	own := &Catalog{under: shared}
	own.Put(&Skill{Name: "domain_7.mine"})
	names := make([]string, 1024)
	for i := range names {
		names[i] = manyName(i * 7919 % manySkills)
	}
	for name, c := range map[string]*Catalog{"shared": shared, "tenant": own} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if _, ok := c.Get(names[i%len(names)]); !ok {
						b.Fail()
					}
				}
			})
		})
	}
}

// BenchmarkSearch looks for words among 10,000 skills.
func BenchmarkSearch(b *testing.B) {
	c := many(b)
	for name, query := range map[string]string{"rare": "number 4711", "none": "weather", "all": "thing"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Search(query)
			}
		})
	}
}

// BenchmarkPut adds one skill to 10,000.
func BenchmarkPut(b *testing.B) {
	b.ReportAllocs()
	c := many(b)
	for i := 0; b.Loop(); i++ {
		c.Put(&Skill{Name: manyName(i % manySkills)})
	}
}

// BenchmarkReloadOne has one of 10,000 files change: told by the system, or
// found by looking at all.
func BenchmarkReloadOne(b *testing.B) {
	dir := manyOnDisk(b)
	l, err := OpenLibrary(LibraryOptions{Folders: []string{dir}})
	if err != nil {
		b.Fatal(err)
	}
	edit := func(b *testing.B, i int) (file, description string) {
		file, description = filepath.Join(l.folders[0].dir, manyPath(i)), fmt.Sprintf("Edited %d", i)
		if err := os.WriteFile(file, []byte(manyFile(i, description)), 0o600); err != nil {
			b.Fatal(err)
		}
		return file, description
	}
	check := func(b *testing.B, i int, description string) {
		if s, _ := l.For("").Get(manyName(i)); s.Description != description {
			b.Fatalf("%s is %q", s.Name, s.Description)
		}
	}
	b.Run("told", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			file, description := edit(b, i%manySkills)
			l.follow(b.Context(), []string{file}, false, nil)
			check(b, i%manySkills, description)
		}
	})
	b.Run("found", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			_, description := edit(b, i%manySkills)
			if _, err := l.Reload(b.Context()); err != nil {
				b.Fatal(err)
			}
			check(b, i%manySkills, description)
		}
	})
}

// BenchmarkParse reads one file.
func BenchmarkParse(b *testing.B) {
	data := []byte(manyFile(1, "Does something"))
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Parse("", data); err != nil {
			b.Fatal(err)
		}
	}
}
