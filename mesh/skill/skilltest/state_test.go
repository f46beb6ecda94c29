package skilltest_test

import (
	"context"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
)

func TestState_demandsTheVersion(t *testing.T) {
	ctx := context.Background()
	s := new(skilltest.State)
	if _, _, err := s.Get(ctx, "k", "a"); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("Get of nothing: %v", err)
	}
	v1, err := s.Put(ctx, "k", "a", []byte("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(ctx, "k", "a", []byte("x"), 0); !mesh.IsCode(err, mesh.Conflict) {
		t.Errorf("Put of what exists: %v", err)
	}
	v2, err := s.Put(ctx, "k", "a", []byte("2"), v1)
	if err != nil || v2 <= v1 {
		t.Errorf("Put: version %d after %d, %v", v2, v1, err)
	}
	if err := s.Delete(ctx, "k", "a", v1); !mesh.IsCode(err, mesh.Conflict) {
		t.Errorf("Delete of an old version: %v", err)
	}
	if err := s.Delete(ctx, "k", "a", skill.AnyVersion); err != nil {
		t.Error(err)
	}
}

func TestState_listsByPrefixInPages(t *testing.T) {
	ctx := context.Background()
	s := new(skilltest.State)
	for _, key := range []string{"b2", "a1", "b1", "b3"} {
		if _, err := s.Put(ctx, "k", key, []byte(key), skill.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	var got string
	for after := ""; ; {
		items, err := s.List(ctx, "k", "b", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			got += string(it.Data) + " "
			after = it.Key
		}
		if len(items) < 2 {
			break
		}
	}
	if got != "b1 b2 b3 " {
		t.Errorf("listed %q", got)
	}
}
