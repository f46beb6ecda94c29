package tasks

import (
	"context"
	"encoding/binary"
	"errors"

	"agentmesh/mesh"
	"agentmesh/mesh/thread/rows"
)

// Pages keep rows, with the position up to which they are of the log. It may be called
// concurrently.
type Pages interface {
	rows.Pages
	// Begin returns up to where the pages are of the log, 0 if there are none, and which
	// threads were deleted since. It is called once, before all others.
	Begin() (upTo mesh.Pos, gone []mesh.ThreadKey)
	// Write brings the changes, all of them or none, into the pages: by key, nil is to be
	// removed. They are of the log up to there.
	Write(upTo mesh.Pos, changes map[string][]byte) error
	// Discard removes all pages, and tells why.
	Discard(why error) error
}

// When rows are kept: so many pages of them have changed, or so many events were applied and
// there are no more. What a killed process has applied since is read from the log again.
const (
	keepPages  = 8192
	keepEvents = 32768
)

var errRow = errors.New("a row is missing or damaged")

// keyForm says that rows are there, and their form.
const keyForm = "f"

// keySwept has the day on which sums were swept last.
const keySwept = "g"

// begin goes on with what is kept, as far as that is there and can be used. The caller holds mu.
func (x *Index) begin() {
	upTo, gone := x.pages.Begin()
	if upTo == 0 {
		return
	}
	table, err := rows.Open(x.pages)
	if err == nil {
		if x.table, x.applied = table, upTo; !x.isOurs() {
			err = errors.New("the rows have another form")
		}
	}
	if err == nil {
		x.recount()
		for _, key := range gone {
			x.drop(key)
		}
		err = x.table.Err()
	}
	if err != nil {
		x.renew(err)
	}
}

func (x *Index) isOurs() bool {
	is, ok := x.table.Get(keyForm)
	return ok && is == string(rune(form))
}

// renew begins afresh, because of what the rows are. The caller holds mu.
func (x *Index) renew(why error) {
	if err := x.pages.Discard(why); err != nil {
		x.logger.Warn("rows of tasks are in memory until the next start", "err", err)
		x.pages = nil
	}
	x.empty()
}

// renewed reports whether the rows were found damaged, and began afresh. The caller holds mu,
// and has the turn.
func (x *Index) renewed() bool {
	err := x.table.Err()
	if err == nil {
		return false
	}
	x.renew(err)
	return true
}

// isDue reports whether rows are to be kept, where the log has been read to its end or not.
func (x *Index) isDue(ended bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.pages != nil && (x.table.Changed() >= keepPages || ended && x.fresh >= keepEvents)
}

// Keep brings rows as they are to where they are kept, so that the next start reads from there
// on. Nobody waits for it; when it fails, they are brought there with the next ones.
func (x *Index) Keep(ctx context.Context) error {
	const op = "tasks.Keep"
	done, err := take(ctx, x.keeping)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	defer done()
	pages, upTo, changes, err := x.take(ctx)
	if err != nil || pages == nil {
		return mesh.Wrap(op, err)
	}
	err = pages.Write(upTo, changes)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.Written(err == nil)
	return mesh.Wrap(op, err)
}

// take returns what is to be kept, of a moment at which no event was applied in part.
func (x *Index) take(ctx context.Context) (Pages, mesh.Pos, map[string][]byte, error) {
	release, err := x.turn(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	defer release()
	if err := x.pruned(ctx); err != nil { // what is kept has no thread that was deleted before its position
		return nil, 0, nil, err
	}
	if err := x.putSummaries(ctx); err != nil {
		return nil, 0, nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.pages == nil || x.renewed() || x.applied == 0 {
		return nil, 0, nil, nil
	}
	x.fresh = 0
	x.table.Put(keyForm, string(rune(form)))
	for key, c := range x.held {
		if !c.kept {
			c.Views = c.Views[:0]
			for _, t := range c.open {
				c.Views = append(c.Views, t.view)
			}
			x.table.Put(threadKey(key), string(c.Encode()))
			c.kept = true
		}
		if !c.used {
			delete(x.held, key)
		}
		c.used = false
	}
	x.putTallies()
	if x.renewed() {
		return nil, 0, nil, nil
	}
	return x.pages, x.applied, x.table.Changes(), nil
}

// putTallies brings tallies into their rows. The caller holds mu.
func (x *Index) putTallies() {
	for o := range x.owed {
		key := rowKey(rowTally, o.Tenant, o.User)
		if t := x.used[o.Tenant][o.User]; t != nil {
			x.table.Put(key, t.encode())
		} else {
			x.table.Delete(key)
		}
	}
	clear(x.owed)
}

// recount has tallies as they are in rows. The caller holds mu.
func (x *Index) recount() {
	for key, row := range x.table.Range(string(rowTally), string(rowTally+1)) {
		o := threadOf(key) // whose second name is the user
		t := x.tally(o.Tenant, o.ID)
		if !t.decode([]byte(row)) {
			x.table.Fail(errRow)
		}
	}
	clear(x.owed)
}

// putSummaries brings summaries into their rows, of threads that are there. The caller has the
// turn.
func (x *Index) putSummaries(ctx context.Context) error {
	x.mu.Lock()
	all := x.summaries
	x.summaries = map[mesh.ThreadKey][]byte{}
	x.mu.Unlock()
	for key, data := range all {
		_, there, err := x.log.Info(ctx, key)
		if err != nil {
			return err
		}
		if there {
			x.mu.Lock()
			x.table.Put(summaryKey(key), string(data))
			x.mu.Unlock()
		}
	}
	return nil
}

// KeepSummary keeps what package cache says of a thread, until the thread is deleted.
func (x *Index) KeepSummary(key mesh.ThreadKey, data []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.pages != nil {
		x.summaries[key] = data
	}
}

// Summary returns what was kept last of the thread, nil if nothing was.
func (x *Index) Summary(key mesh.ThreadKey) []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	if data, ok := x.summaries[key]; ok {
		return data
	}
	row, _ := x.table.Get(summaryKey(key))
	if x.table.Err() != nil || row == "" {
		return nil
	}
	return []byte(row)
}

func (t *tally) encode() string {
	b := binary.AppendVarint(binary.AppendVarint(nil, t.threads), t.agents)
	if t.day != nil {
		for _, h := range t.day {
			for _, n := range []int64{h.of, h.dispatches, h.spent.Calls, h.spent.Tokens, h.spent.Cost, h.spent.Agents} {
				b = binary.AppendVarint(b, n)
			}
		}
	}
	return string(b)
}

// decode reports whether that was a tally.
func (t *tally) decode(b []byte) bool {
	ok := true
	next := func(n *int64) {
		v, used := binary.Varint(b)
		if used <= 0 {
			ok, used = false, 0
		}
		*n, b = v, b[used:]
	}
	next(&t.threads)
	next(&t.agents)
	if len(b) > 0 {
		t.day = new([hours]hour)
		for i := range t.day {
			h := &t.day[i]
			for _, n := range []*int64{&h.of, &h.dispatches, &h.spent.Calls, &h.spent.Tokens, &h.spent.Cost, &h.spent.Agents} {
				next(n)
			}
		}
	}
	return ok && len(b) == 0
}
