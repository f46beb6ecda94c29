package skill_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
)

// S3-027, S3-084, S3-109: no arguments are an empty object; a type that is not
// known and a skill that declares nothing pass anything; a schema of others is
// theirs to enforce, but for what it forbids and what is declared of it.
func TestValidationIsLight(t *testing.T) {
	odd := []skill.Parameter{{Name: "shape", Type: "polygon"}, {Name: "size", Type: "integer"}}
	tests := map[string]struct {
		parameters []skill.Parameter
		schema     string
		args       map[string]any
		want       map[string]any
		told       string
	}{
		"nothing for nothing":          {nil, "", nil, map[string]any{}, ""},
		"nothing where nothing is due": {odd, "", nil, map[string]any{}, ""},
		"an empty schema":              {nil, "", map[string]any{"a": 1.5, "b": []any{"x"}}, map[string]any{"a": 1.5, "b": []any{"x"}}, ""},
		"an unknown type":              {odd, "", map[string]any{"shape": map[string]any{"n": 3.0}}, map[string]any{"shape": map[string]any{"n": 3.0}}, ""},
		"a known one beside it": {odd, "", map[string]any{"shape": 1.0, "size": "x"}, nil,
			"Invalid arguments for 'a.b': 'size' must be an integer. Valid parameters: shape (polygon), size (integer)."},
		"not declared": {odd, "", map[string]any{"colour": "red"}, nil,
			"Invalid arguments for 'a.b': Unknown parameter: 'colour'. Valid parameters: shape (polygon), size (integer)."},
		"not declared, with a schema that is open": {odd, `{"type":"object"}`, map[string]any{"colour": "red", "size": "2"},
			map[string]any{"colour": "red", "size": int64(2)}, ""},
		"not declared, with a schema that is closed": {odd, `{"additionalProperties":false}`, map[string]any{"colour": "red"}, nil,
			"Invalid arguments for 'a.b': Unknown parameter: 'colour'. Valid parameters: shape (polygon), size (integer)."},
		"nothing declared, with a schema that is closed": {nil, `{"additionalProperties":false}`, map[string]any{"colour": "red"}, nil,
			"Invalid arguments for 'a.b': Unknown parameter: 'colour'. It declares no parameters."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &skill.Skill{Name: "a.b", Handler: "h", Parameters: tt.parameters}
			if tt.schema != "" {
				s.Schema = json.RawMessage(tt.schema)
			}
			x := skill.NewExecutor(skill.Config{
				Journal:  skilltest.Journal{},
				Lookup:   func(context.Context, string) (*skill.Skill, error) { return s, nil },
				Handlers: map[string]skill.Handler{"h": skill.HandlerFunc(echo)},
			})
			r := execute(x, "a.b", tt.args)
			if tt.told != "" {
				if r.Content != tt.told || !r.Failed() {
					t.Errorf("told %q, want %q", r.Content, tt.told)
				}
				return
			}
			if diff := cmp.Diff(any(tt.want), r.Metadata["args"]); diff != "" {
				t.Errorf("%s %s", diff, r.Content)
			}
		})
	}
}
