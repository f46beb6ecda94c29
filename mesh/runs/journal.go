package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// The kinds of what is kept. A plan is kept under its tenant and skill, a record
// under its tenant, due time, the newest first, and skill.
const (
	kindPlan   = "skill-schedule"
	kindRecord = "skill-run"
)

// maxRecords is how many due times of a skill have a record.
const maxRecords = 100

// A jobID names a skill that has a schedule, in the tenant that runs it.
type jobID struct {
	tenant mesh.TenantID
	skill  string
}

func (id jobID) String() string { return string(id.tenant) + "/" + id.skill }

// A plan is what is settled about the schedule of a skill. Whoever replaces it
// by one with a further due time has claimed that.
type plan struct {
	Schedule string `json:"schedule,omitempty"`
	Timezone string `json:"timezone,omitempty"`
	// Since is when this schedule was first seen: due times after it count.
	Since time.Time `json:"since"`
	// Dues are the due times that are settled, as Unix seconds, the last one at
	// the end: what is not later is nobody's any more.
	Dues []int64 `json:"dues,omitempty"`
	// Begun is the last of these that was to run, or 0.
	Begun int64 `json:"begun,omitempty"`
	// User is whose that run is.
	User string `json:"user,omitempty"`
	// Retired is when the schedule was first found gone.
	Retired time.Time `json:"retired,omitzero"`
}

// from is the time after which due times are open.
func (p *plan) from() time.Time {
	if n := len(p.Dues); n > 0 && p.Dues[n-1] > p.Since.Unix() {
		return time.Unix(p.Dues[n-1], 0)
	}
	return p.Since
}

// settle adds due times, which are later than those before, and returns those
// that have no place any more.
func (p *plan) settle(dues ...time.Time) (dropped []int64) {
	for _, d := range dues {
		p.Dues = append(p.Dues, d.Unix())
	}
	if over := len(p.Dues) - maxRecords; over > 0 {
		dropped, p.Dues = slices.Clone(p.Dues[:over]), slices.Clone(p.Dues[over:])
	}
	return dropped
}

// rewind takes out what is settled beyond now, returns it, and has due times
// count from now on.
func (p *plan) rewind(now time.Time) (dropped []int64) {
	at := slices.IndexFunc(p.Dues, func(due int64) bool { return due > now.Unix() })
	if at >= 0 {
		dropped, p.Dues = slices.Clone(p.Dues[at:]), slices.Clone(p.Dues[:at])
	}
	if p.Begun > now.Unix() {
		p.Begun = 0
	}
	p.Since = now.UTC()
	return dropped
}

// What a record's Status may be.
const (
	statusRunning   = "running"
	statusCompleted = "completed"
	statusFailed    = "failed"
	statusAwaiting  = "awaiting"
	statusMissed    = "missed"
)

// maxDetail bounds what a record says about its run, in bytes.
const maxDetail = 500

// A record is what became of a due time.
type record struct {
	Skill   string    `json:"skill"`
	User    string    `json:"user,omitempty"` // whose it is; "" in records of before, which are the scheduler's
	Due     time.Time `json:"due"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Status  string    `json:"status"`
	Detail  string    `json:"detail,omitempty"`
	Thread  string    `json:"thread,omitempty"`
	Task    string    `json:"task,omitempty"`
}

// A journal keeps plans and records.
type journal struct{ kv KV }

func planKey(id jobID) state.Key { return state.Key{Kind: kindPlan, Name: id.String()} }

func recordKey(id jobID, due int64) state.Key {
	return state.Key{Kind: kindRecord, Name: string(id.tenant) + "/" + place(due, id.skill)}
}

// place is where a record is among those of its tenant.
func place(due int64, skill string) string {
	return fmt.Sprintf("%016x/%s", uint64(math.MaxInt64-due), skill)
}

// parsePlace undoes place; false for what it does not make.
func parsePlace(s string) (due int64, skill string, ok bool) {
	at, skill, found := strings.Cut(s, "/")
	n, err := strconv.ParseInt(at, 16, 64)
	if !found || err != nil || n < 0 || place(math.MaxInt64-n, skill) != s {
		return 0, "", false
	}
	return math.MaxInt64 - n, skill, true
}

// plan returns the plan and its version; the zero plan with 0 if there is none.
func (j journal) plan(ctx context.Context, id jobID) (*plan, int64, error) {
	v, err := j.kv.Get(ctx, planKey(id))
	if mesh.IsCode(err, mesh.NotFound) {
		return new(plan), 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	p := new(plan)
	return p, v.Version, decode(v.Data, p)
}

// putPlan replaces the plan that has the version. The error is Conflict if
// another stands.
func (j journal) putPlan(ctx context.Context, id jobID, p *plan, version int64) error {
	data, err := json.Marshal(p)
	if err != nil {
		return mesh.Wrap("runs.putPlan", err)
	}
	_, err = j.kv.Put(ctx, planKey(id), data, version)
	return err
}

// record returns the record of a due time and its version, or NotFound.
func (j journal) record(ctx context.Context, id jobID, due int64) (*record, int64, error) {
	v, err := j.kv.Get(ctx, recordKey(id, due))
	if err != nil {
		return nil, 0, err
	}
	r := new(record)
	return r, v.Version, decode(v.Data, r)
}

// begun returns the record of the last due time that was to run, and its version:
// nil if it is not kept any more, and one with version 0 if whoever claimed the due
// time came no further.
func (j journal) begun(ctx context.Context, id jobID, p *plan) (*record, int64, error) {
	rec, version, err := j.record(ctx, id, p.Begun)
	if !mesh.IsCode(err, mesh.NotFound) {
		return rec, version, err
	}
	if !slices.Contains(p.Dues, p.Begun) {
		return nil, 0, nil
	}
	return &record{Skill: id.skill, User: p.User, Due: time.Unix(p.Begun, 0).UTC(), Status: statusRunning}, 0, nil
}

// putRecord replaces the record that has the version, 0 if there must be none,
// and returns the new version. The error is Conflict if another stands.
func (j journal) putRecord(ctx context.Context, id jobID, r *record, version int64) (int64, error) {
	r.Detail = mesh.Clip(r.Detail, maxDetail)
	data, err := json.Marshal(r)
	if err != nil {
		return 0, mesh.Wrap("runs.putRecord", err)
	}
	return j.kv.Put(ctx, recordKey(id, r.Due.Unix()), data, version)
}

// drop deletes records. One that is not there is no error.
func (j journal) drop(ctx context.Context, id jobID, dues []int64) error {
	for _, due := range dues {
		if err := j.kv.Delete(ctx, recordKey(id, due), state.AnyVersion); err != nil && !mesh.IsCode(err, mesh.NotFound) {
			return err
		}
	}
	return nil
}

// forget deletes a plan that has the version, with its records.
func (j journal) forget(ctx context.Context, id jobID, p *plan, version int64) error {
	if err := j.drop(ctx, id, p.Dues); err != nil {
		return err
	}
	return j.kv.Delete(ctx, planKey(id), version)
}

// A planned is a plan and what it is of.
type planned struct {
	id      jobID
	plan    *plan
	version int64
}

// plans returns the plans whose names begin with the prefix, "" for those of all
// tenants.
func (j journal) plans(ctx context.Context, prefix string) ([]planned, error) {
	var all []planned
	for after, more := "", true; more; {
		var items []state.Item
		var err error
		if items, more, err = j.kv.List(ctx, state.Page{Kind: kindPlan, Prefix: prefix, After: after, Limit: state.MaxPage}); err != nil {
			return nil, err
		}
		for _, it := range items {
			after = it.Name
			tenant, skill, _ := strings.Cut(it.Name, "/")
			p := planned{jobID{mesh.TenantID(tenant), skill}, new(plan), it.Version}
			if err := decode(it.Data, p.plan); err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	return all, nil
}

func decode(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return mesh.Errorf(mesh.Unknown, "runs.decode", "what is kept of schedules cannot be read: %w", err)
	}
	return nil
}
