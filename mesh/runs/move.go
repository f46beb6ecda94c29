package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// Keeps names what a Runner keeps of tenants.
func (r *Runner) Keeps() string { return "runs" }

// Export gives put the tenant's plans, and the records of runs.
func (r *Runner) Export(ctx context.Context, t mesh.TenantID, put func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	const op = "runs.Export"
	prefix := string(t) + "/"
	give := func(kind, name string, v any) error {
		data, err := json.Marshal(v)
		if err != nil {
			return mesh.Wrap(op, err)
		}
		return put(mesh.Kept{Kind: kind, Name: strings.TrimPrefix(name, prefix), Size: int64(len(data))}, bytes.NewReader(data))
	}
	plans, err := r.journal.plans(ctx, prefix)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	for _, p := range plans {
		if err := give(kindPlan, p.id.String(), p.plan); err != nil {
			return nil, err
		}
	}
	for it, err := range r.journal.all(ctx, prefix) {
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		if err := give(kindRecord, it.key.Name, it.rec); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Import keeps a plan or a record that Export gave, unless there is one. Due times count from
// now on: none of before is made up for, and nothing that ran is run again. A run that was not
// over has failed.
func (r *Runner) Import(ctx context.Context, t mesh.TenantID, k mesh.Kept, in io.Reader) (bool, error) {
	const op = "runs.Import"
	if k.Size > state.MaxData {
		return false, mesh.InvalidField(op, "data", "must be at most %d bytes, and has %d", state.MaxData, k.Size)
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return false, err
	}
	id := jobID{t, k.Name}
	switch k.Kind {
	case kindPlan:
		p := new(plan)
		if json.Unmarshal(data, p) != nil {
			return false, mesh.InvalidField(op, "data", "is no plan of a schedule")
		}
		p.Since, p.Begun = time.Now().UTC(), 0
		err = r.journal.putPlan(ctx, id, p, 0)
	case kindRecord:
		rec := new(record)
		due, skill, ok := parsePlace(k.Name)
		if json.Unmarshal(data, rec) != nil || !ok || rec.Due.Unix() != due || rec.Skill != skill {
			return false, mesh.InvalidField(op, "data", "is no record of a run")
		}
		if rec.Status == statusRunning || rec.Status == statusAwaiting {
			rec.Status, rec.Detail = statusFailed, "It was not over when what there was of its tenant was exported."
		}
		id.skill = skill
		_, err = r.journal.putRecord(ctx, id, rec, 0)
	default:
		return false, mesh.InvalidField(op, "kind", "must be %s or %s", kindPlan, kindRecord)
	}
	if mesh.IsCode(err, mesh.Conflict) { // it is there
		return false, nil
	}
	return err == nil, mesh.Wrap(op, err)
}
