package node

import (
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/turn"
)

// finding R6, security.md §6: how many turns are worked on at once follows from the memory that
// the process may have, unless it is set; under authentication users and tenants have shares.
func TestTheMemorySaysHowManyTurnsAreWorkedOn(t *testing.T) {
	shares := Quotas{User: Quota{Turns: 2}, Tenant: Quota{Turns: -1}}
	for name, tt := range map[string]struct {
		cfg    Config
		memory int64
		want   turn.Places
	}{
		"it is not known":     {Config{}, 0, turn.Places{Running: 256, Waiting: 256 * 64}},
		"a little":            {Config{}, 32 << 20, turn.Places{Running: 16, Waiting: 16 * 64}},
		"256 MiB":             {Config{}, 256 << 20, turn.Places{Running: 64, Waiting: 64 * 64}},
		"2 GiB":               {Config{}, 2 << 30, turn.Places{Running: 512, Waiting: 512 * 64}},
		"much":                {Config{}, 1 << 40, turn.Places{Running: 1024, Waiting: 1024 * 64}},
		"it is set":           {Config{Turns: Turns{Running: 3, Queued: 7}}, 256 << 20, turn.Places{Running: 3, Waiting: 7}},
		"no limit":            {Config{Turns: Turns{Running: -1}}, 256 << 20, turn.Places{}},
		"any number waits":    {Config{Turns: Turns{Queued: -1}}, 256 << 20, turn.Places{Running: 64}},
		"users are known":     {Config{Auth: "tokens"}, 256 << 20, turn.Places{Running: 64, OfUser: 5, OfTenant: 20, Waiting: 64 * 64}},
		"shares are set":      {Config{Auth: "tokens", Quotas: shares}, 256 << 20, turn.Places{Running: 64, OfUser: 2, Waiting: 64 * 64}},
		"set, and none tells": {Config{Auth: authNone, Quotas: shares}, 256 << 20, turn.Places{Running: 64, OfUser: 2, Waiting: 64 * 64}},
	} {
		if tt.cfg.Auth == "" {
			tt.cfg.Auth = authNone
		}
		if got := tt.cfg.places(tt.memory); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	for field, cfg := range map[string]Config{
		"turns.running": {Turns: Turns{Running: -2}}, "turns.queued": {Turns: Turns{Queued: maxQueued + 1}},
		"quotas.user.turns": {Quotas: Quotas{User: Quota{Turns: -2}}}, "limits.output_events": {Limits: Limits{OutputEvents: 9}},
		"limits.output_bytes": {Limits: Limits{OutputBytes: 100}}, "agents.a.output_events": {Agents: map[string]AgentConfig{"a": {OutputEvents: -7}}},
	} {
		if err := cfg.Fill(); !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
