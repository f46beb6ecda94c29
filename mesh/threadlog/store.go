package threadlog

import (
	"context"

	"agentmesh/mesh"
)

// An Entry is what a [Store] must know of an event without decoding it.
type Entry struct {
	Data []byte
	// ID is the writer's id of the event. A thread has an id at most once;
	// "" is no id.
	ID string
	// Scope is what a decision is about, if Decision is set.
	Scope    mesh.Scope
	Decision bool
	// Claim, if above 0, makes this entry the claim of the thread under that
	// epoch.
	Claim mesh.Epoch
	// Opens says that the event leaves something for the thread's driver to do.
	Opens bool
}

// An Expect demands that the last decision in the scope is the one at Seq; 0
// demands that there is none yet.
type Expect struct {
	Scope mesh.Scope
	Seq   mesh.Seq
}

// A Batch is what is appended to a thread at once.
type Batch struct {
	Entries []Entry
	Expect  []Expect
	// First is the Info.FirstPos of the thread that the batch is for, which another
	// one with its key is not; 0 is whichever has it.
	First mesh.Pos
	// Epoch is the claim under which a driver writes, 0 for others.
	Epoch mesh.Epoch
	// Settled says that, once the batch is there, nothing is left to do of what
	// entries with a Seq up to this one opened; 0 says nothing.
	Settled mesh.Seq
	// Deferred says that the batch alone is no reason to go to the disk: it may
	// wait a moment for another one of any thread, to go with it.
	Deferred bool
	// Placed, if set, is called once when the batch has its place: what is given to
	// the store for the thread after that comes after it. It must not block, and is
	// not called for a batch that is refused before.
	Placed func()
}

// Appended says where a batch's entries are. Both slices are as long as
// Batch.Entries.
type Appended struct {
	// Seqs has each entry's Seq. An entry whose id was there already has the
	// Seq of the one that was.
	Seqs []mesh.Seq
	// Pos has the position of each entry that was added, and 0 for the others.
	Pos []mesh.Pos
}

// A Record is a stored entry.
type Record struct {
	Seq    mesh.Seq
	Pos    mesh.Pos
	Thread mesh.ThreadKey
	// Decision is the entry's, for readers who want no others and decode none.
	Decision bool
	Data     []byte
}

// A Store keeps the bytes. Drivers implement it; everything else uses [Log],
// which adds encoding, validation and following once for all of them.
//
// Implementations are safe for concurrent use, keep no slice they were given
// beyond the call and return no memory that they will write to again. Package
// logtest is the other half of this contract.
type Store interface {
	// Append adds the batch to the thread: all of it, or nothing. It returns
	// when the batch is as durable as the driver makes it, or refused; a
	// context that ends meanwhile does not leave that open.
	//
	// Entries with an id that the thread has already are not added again. A
	// batch of nothing else succeeds without another check. Of any other,
	// Append returns mesh.Conflict, with the reason for the user, if an Expect
	// fails, if First is that of another thread, if a Claim is not above the thread's epoch, or if Epoch is neither
	// 0 nor the thread's epoch. A claim in the batch counts for its Epoch:
	// claiming and writing under the claim can be one batch.
	//
	// Positions are those of the commit order and never used twice. The entries
	// of one batch have positions in a row.
	Append(ctx context.Context, key mesh.ThreadKey, b *Batch) (Appended, error)

	// Read returns at most limit records of the thread with a Seq above after,
	// in order. A page may be shorter, to bound memory, but is empty only when
	// there is nothing more; so it is for a thread that does not exist.
	Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]Record, error)

	// Scan returns at most limit records of all threads with a position above
	// after, in commit order, without those of deleted threads. Pages may be
	// short as those of Read.
	Scan(ctx context.Context, after mesh.Pos, limit int) ([]Record, error)
}

// Info is what a store knows of a thread without reading it.
type Info struct {
	Key     mesh.ThreadKey
	Last    mesh.Seq // of its last event
	LastPos mesh.Pos
	// FirstPos is that of its first event: which one of the threads this is that
	// have had the key, one after the other was deleted.
	FirstPos mesh.Pos
	Epoch    mesh.Epoch // of the claim that stands, 0 if it never was claimed
	// Open is the Seq of the last entry that opened something which has not been
	// settled, 0 if there is nothing to do.
	Open mesh.Seq
	// Bytes are those of its records' data.
	Bytes int64
	// Damaged says, in what Catalog.Threads returns, that the store has found damage in it and
	// closed it: its events answer mesh.DataLoss, whatever else still knows of it.
	Damaged bool
}

// AnyPos is every position.
const AnyPos mesh.Pos = -1

// A Catalog knows which threads there are. It is safe for concurrent use.
type Catalog interface {
	// Threads returns at most limit of the tenant's threads, the last touched
	// first, with a LastPos below before (0: from the start). Give the LastPos
	// of a page's last thread to get the next page: no thread comes twice, and
	// one that is touched meanwhile is to be found at the start again.
	Threads(ctx context.Context, tenant mesh.TenantID, before mesh.Pos, limit int) ([]Info, error)

	// Idle returns at most limit of the tenant's threads, the longest untouched first, with
	// a LastPos above after (0: from the start). Its pages go on as those of Threads do; a
	// thread that is touched meanwhile comes at the end.
	Idle(ctx context.Context, tenant mesh.TenantID, after mesh.Pos, limit int) ([]Info, error)

	// Tenants returns how many threads each tenant has that has any.
	Tenants(ctx context.Context) (map[mesh.TenantID]int, error)

	// Bytes returns how many bytes the data of the records of all threads of the tenant
	// have: what was deleted counts no more. It reads none of them.
	Bytes(ctx context.Context, tenant mesh.TenantID) (int64, error)

	// Info returns what is known of the thread; false if it does not exist.
	Info(ctx context.Context, key mesh.ThreadKey) (Info, bool, error)

	// Delete removes the thread and all its records for good, or returns
	// mesh.NotFound. If its last record is not at position last, which may be
	// AnyPos, it returns mesh.Conflict: there is more than its caller knows. Its id
	// may be used again and then starts at Seq 1, without memory of ids, decisions
	// and claims.
	Delete(ctx context.Context, key mesh.ThreadKey, last mesh.Pos) error

	// Deleted returns the threads that were deleted, the last one last, after a call returned
	// since as now; 0 is since the store was opened. As long as now is the same, all threads
	// that were there are. all is false for so many that they are not known any more; then
	// there are no keys.
	Deleted(ctx context.Context, since int64) (keys []mesh.ThreadKey, now int64, all bool, err error)

	// Unfinished returns at most limit threads that have an Info.Open, of all
	// tenants, in the order of the positions at which that stands, above after.
	// A driver that died may have left one behind in which nothing is to do;
	// one in which something is to do is always there, also after a restart.
	Unfinished(ctx context.Context, after mesh.Pos, limit int) ([]Unfinished, error)

	// Settle says of the thread that begins at position first, without adding to it,
	// what Batch.Settled says. It need not survive a restart.
	Settle(ctx context.Context, key mesh.ThreadKey, first mesh.Pos, upTo mesh.Seq) error
}

// Unfinished is a thread in which something may be left to do.
type Unfinished struct {
	Key  mesh.ThreadKey
	Open mesh.Seq
	Pos  mesh.Pos // of the entry at Open
}

// A Notifier tells of changes that others make.
type Notifier interface {
	// Notify calls wake with each thread that another process, or another handle
	// of the same data, has appended to or deleted, until ctx is done. Wake-ups
	// may be late, lost or repeated; they say only that it is worth to look. It
	// returns nil at once where nobody else can write.
	Notify(ctx context.Context, wake func(mesh.ThreadKey)) error
}

// Chained is a store that chains the events of a thread by hashes.
type Chained interface {
	// LastHash returns the hash of the thread's last event, which covers all before it;
	// zeros if there is no thread, or no hash.
	LastHash(key mesh.ThreadKey) [32]byte
}

// Backend is what a [Log] stands on.
type Backend interface {
	Store
	Catalog
	Notifier
}
