package tasks

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/rows"
	"agentmesh/mesh/threadlog"
)

// SumDays is for how many days it is kept what models used, this one among them.
const SumDays = 400

// maxModels bounds the names of models that one agent has a sum for, of a user and a day: agents
// say them. What others used is in the sum of the name "".
const maxModels = 64

// A Sum is what replies of models used. It is exact: whoever adds up the same replies, in
// whatever order, has the same.
type Sum struct {
	Replies, Prompt, Completion, Cached, CacheWrite int64
	Unpriced                                        int64 // of the tokens, those without a price
	Nanos                                           int64 // billionths of a US dollar
}

func partsOf(s *Sum) [7]*int64 {
	return [...]*int64{&s.Replies, &s.Prompt, &s.Completion, &s.Cached, &s.CacheWrite, &s.Unpriced, &s.Nanos}
}

// Add returns the sum of both.
func (s Sum) Add(o Sum) Sum {
	more := partsOf(&o)
	for i, n := range partsOf(&s) {
		if *n += *more[i]; *n < 0 { // more than there is: somebody says what cannot be
			*n = math.MaxInt64
		}
	}
	return s
}

// Usage is what was used, in dollars.
func (s Sum) Usage() mesh.Usage {
	return mesh.Usage{Prompt: s.Prompt, Completion: s.Completion, Cached: s.Cached, CacheWrite: s.CacheWrite,
		Unpriced: s.Unpriced, Cost: float64(s.Nanos) / 1e9}
}

func sumOf(u mesh.Usage) Sum {
	return Sum{1, u.Prompt, u.Completion, u.Cached, u.CacheWrite, u.Unpriced, int64(math.Round(u.Cost * 1e9))}
}

func (s Sum) encode() string {
	var room [7 * binary.MaxVarintLen64]byte
	b := room[:0]
	for _, n := range partsOf(&s) {
		b = binary.AppendVarint(b, *n)
	}
	return string(b)
}

func (x *Index) sum(row string) (s Sum) {
	var room [7 * binary.MaxVarintLen64]byte // on the stack
	b := room[:copy(room[:], row)]
	for _, n := range partsOf(&s) {
		v, used := binary.Varint(b)
		if used <= 0 {
			x.table.Fail(errRow)
			return Sum{}
		}
		*n, b = v, b[used:]
	}
	return s
}

// A day is how many there were since 1970, in UTC.
func dayOf(t time.Time) int64 { return max(t.Unix(), 0) / int64(threadlog.Day/time.Second) }

// appendDay appends what orders days.
func appendDay(b []byte, day int64) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(day)) // #nosec G115 -- not before the year 13000
}

// sumsKey begins the keys of sums of a sort, of the user on a day.
func sumsKey(sort byte, t mesh.TenantID, user string, day int64) string {
	var room [192]byte // on the stack
	return string(appendDay(appendKey(room[:0], sort, t, user), day))
}

// threadSumKey says of a thread that it has a sum, of the user on a day.
func threadSumKey(key mesh.ThreadKey, user string, day int64) string {
	return threadKey(key) + ofThreadSum + string(appendDay(nil, day)) + user
}

// A sumKey is what a sum is of.
type sumKey struct {
	tenant mesh.TenantID
	user   string
	day    int64
	rest   string // the thread, or agent and model
	of     string // the key without day and rest
}

// parseSum reads a key; false for what is none.
func parseSum(key string) (k sumKey, ok bool) {
	tenant, rest := cutName(key[1:])
	user, rest := cutName(rest)
	if len(rest) < 4 {
		return k, false
	}
	return sumKey{mesh.TenantID(tenant), user, int64(binary.BigEndian.Uint32([]byte(rest[:4]))), rest[4:], key[:len(key)-len(rest)]}, true
}

// spend adds the reply to the sums.
func (x *Index) spend(key mesh.ThreadKey, user string, r thread.Use, at time.Time) {
	day := dayOf(at)
	if r.Usage == (mesh.Usage{}) || day <= dayOf(x.log.Now())-SumDays {
		return
	}
	more, of := sumOf(r.Usage), sumsKey(rowSum, key.Tenant, user, day)+string(name(nil, r.Agent))
	row := of + r.Model
	if _, there := x.table.Get(row); !there && x.table.Count(of, rows.Beyond(of)) >= maxModels {
		row = of
	}
	x.increase(row, more)
	x.increase(sumsKey(rowThreadSum, key.Tenant, user, day)+key.ID, more)
	x.table.Put(threadSumKey(key, user, day), "")
}

func (x *Index) increase(row string, more Sum) {
	if was, there := x.table.Get(row); there {
		more = x.sum(was).Add(more)
	}
	x.table.Put(row, more.encode())
}

// dropSum removes the thread's sum of which that row says that it is there; what was used stays
// in the others.
func (x *Index) dropSum(key mesh.ThreadKey, row string) {
	rest, is := strings.CutPrefix(row, threadKey(key)+ofThreadSum)
	if is && len(rest) >= 4 {
		day := int64(binary.BigEndian.Uint32([]byte(rest[:4])))
		x.table.Delete(sumsKey(rowThreadSum, key.Tenant, rest[4:], day) + key.ID)
	}
}

// sweepSums removes what is older than SumDays, once a day. The caller holds mu.
func (x *Index) sweepSums(now time.Time) {
	today := dayOf(now)
	if was, _ := x.table.Get(keySwept); was == string(appendDay(nil, today)) {
		return
	}
	x.table.Put(keySwept, string(appendDay(nil, today)))
	for _, sort := range []byte{rowSum, rowThreadSum} {
		var old []string
		for at := string(sort); at < string(sort+1); {
			at = x.walk(at, string(sort+1), math.MaxInt, span{0, today - SumDays}, func(key string, k sumKey, _ Sum) {
				if old = append(old, key); sort == rowThreadSum {
					old = append(old, threadSumKey(mesh.ThreadKey{Tenant: k.tenant, ID: k.rest}, k.user, k.day))
				}
			})
		}
		for _, key := range old {
			x.table.Delete(key)
		}
	}
}

// A span is of days, both included.
type span struct{ first, last int64 }

// walk has each get the sums from one key up to, and without, another, that are of the days, but
// not many more than most of them; and returns where to go on. The caller holds mu.
func (x *Index) walk(from, to string, most int, in span, each func(key string, k sumKey, s Sum)) (next string) {
	for key, row := range x.table.Range(from, to) {
		k, ok := parseSum(key)
		switch {
		case !ok:
			x.table.Fail(errRow)
			return to
		case k.day < in.first:
			return k.of + string(appendDay(nil, in.first))
		case k.day > in.last:
			return rows.Beyond(k.of)
		case most == 0:
			return key
		}
		most--
		each(key, k, x.sum(row))
	}
	return to
}

// What sums are of.
const (
	ByDay    = "day" // as 2026-01-31, in UTC
	ByUser   = "user"
	ByAgent  = "agent"
	ByModel  = "model"
	ByThread = "thread"
	ByTenant = "tenant"
)

// Sums says which sums are wanted.
type Sums struct {
	// Tenant is whose; "" is all tenants'.
	Tenant mesh.TenantID
	// User is whose alone, unless All are wanted.
	User string
	All  bool
	// First and Last are times of the first day and of the last one.
	First, Last time.Time
	// By is one of the constants.
	By string
}

// sumsAtOnce is how many rows are read before others get their turn.
const sumsAtOnce = 2048

// Sums returns what models used, with all that was acknowledged before the call, by what the
// sums are to be of. It reads no thread. What was used in threads that were deleted is in all sums
// but those of threads; users who were erased are "". What is in the log no more is not in sums
// that had to be made of the log.
func (x *Index) Sums(ctx context.Context, q Sums) (map[string]Sum, error) {
	const op = "tasks.Sums"
	for {
		if err := x.caughtUp(ctx, q.Tenant); err != nil {
			return nil, mesh.Wrap(op, err)
		}
		all, err := x.addUp(ctx, q)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		x.mu.Lock()
		damaged := x.table.Err() != nil
		x.mu.Unlock()
		if !damaged {
			return all, nil
		}
		if _, err := x.step(ctx); err != nil { // which begins afresh
			return nil, mesh.Wrap(op, err)
		}
	}
}

// caughtUp is Catch, of all tenants for "".
func (x *Index) caughtUp(ctx context.Context, t mesh.TenantID) error {
	if t != "" {
		return x.Catch(ctx, t)
	}
	if err := x.readAll(ctx); err != nil {
		return err
	}
	return x.prune(ctx)
}

func (x *Index) addUp(ctx context.Context, q Sums) (map[string]Sum, error) {
	type subject struct {
		day  int64
		name string
	}
	all, at, to := map[subject]Sum{}, q.prefix(), rows.Beyond(q.prefix())
	add := func(_ string, k sumKey, s Sum) {
		of := subject{name: q.of(k)}
		if q.By == ByDay {
			of.day = k.day
		}
		all[of] = all[of].Add(s)
	}
	for at < to {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x.mu.Lock()
		at = x.walk(at, to, sumsAtOnce, span{dayOf(q.First), dayOf(q.Last)}, add)
		x.mu.Unlock()
	}
	sums := make(map[string]Sum, len(all))
	for of, s := range all {
		if q.By == ByDay {
			of.name = time.Unix(of.day*int64(threadlog.Day/time.Second), 0).UTC().Format(time.DateOnly)
		}
		sums[of.name] = s
	}
	return sums, nil
}

func (q Sums) prefix() string {
	sort := byte(rowSum)
	if q.By == ByThread {
		sort = rowThreadSum
	}
	switch {
	case q.Tenant == "":
		return string(sort)
	case q.All:
		return rowKey(sort, q.Tenant)
	}
	return rowKey(sort, q.Tenant, q.User)
}

// of is of what the sum is that is wanted; "" of days.
func (q Sums) of(k sumKey) string {
	agent, model := cutName(k.rest)
	switch q.By {
	case ByUser:
		return k.user
	case ByAgent:
		return agent
	case ByModel:
		return model
	case ByThread:
		return k.rest
	case ByTenant:
		return string(k.tenant)
	}
	return ""
}
