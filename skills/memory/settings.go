package memory

import (
	"context"
	"encoding/json"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
)

// settingsKey is the name of the user's settings among the values of [Kind].
const settingsKey = "settings"

// Settings are a user's own.
type Settings struct {
	// Learn says that lasting facts in what agents find out are saved although the user did
	// not ask for it.
	Learn bool `json:"learn"`
}

// SettingsOf returns the settings of the user whose state it is. One who has none has the
// zero value.
func SettingsOf(ctx context.Context, state skill.State) (Settings, error) {
	s, _, err := settings(ctx, state)
	return s, err
}

func settings(ctx context.Context, state skill.State) (s Settings, version int64, err error) {
	const op = "memory.Settings"
	data, version, err := state.Get(ctx, Kind, settingsKey)
	switch {
	case mesh.IsCode(err, mesh.NotFound):
		return s, 0, nil
	case err != nil:
		return s, 0, mesh.Wrap(op, err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, 0, mesh.Errorf(mesh.Unknown, op, "The settings of the memory cannot be read: %w", err)
	}
	return s, version, nil
}

// set shows the settings, and changes what the call names.
func (s *Store) set(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	now, version, err := settings(ctx, env.State)
	if err != nil {
		return nil, err
	}
	if flags.Has(call, "learn") {
		learn, err := flags.Bool(call, "learn")
		if err != nil {
			return nil, err
		}
		if learn != now.Learn {
			now.Learn = learn
			data, err := json.Marshal(now)
			if err != nil {
				return nil, mesh.Wrap(call.Skill, err)
			}
			if _, err := env.State.Put(ctx, Kind, settingsKey, data, version); err != nil {
				return nil, mesh.Wrap(call.Skill, err)
			}
		}
	}
	content := "What agents find out is not saved unless you ask for it."
	if now.Learn {
		content = "Lasting facts in what agents find out are saved."
	}
	return &skill.Result{Content: content, Metadata: map[string]any{"learn": now.Learn}}, nil
}
