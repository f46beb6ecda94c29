package limit

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Windows counts calls per caller within a window that slides with the time.
// It remembers a bounded number of callers and forgets the one that has been
// quiet the longest. What it counts is in memory: after a restart all callers
// begin anew, but for what it is told by Recall. It is safe for concurrent use.
// The zero value limits nothing.
type Windows struct {
	most   int
	period time.Duration

	mu      sync.Mutex
	callers *simplelru.LRU[string, *recent]
}

// recent are the calls that a caller made within the window.
type recent struct{ times []time.Time }

// NewWindows returns Windows for the calls of users within the budgets, which
// are valid, that remembers maxCallers of them, at least 1.
func NewWindows(b Budgets, maxCallers int) *Windows {
	callers, err := simplelru.NewLRU[string, *recent](max(maxCallers, 1), nil)
	if err != nil {
		panic(err) // it is positive
	}
	return &Windows{most: b.Most(UserSkillCalls), period: b.Period(), callers: callers}
}

// Take counts a call of the caller, or returns the trip of UserSkillCalls if
// that would exceed the limit; such a call costs nothing.
func (w *Windows) Take(name string, now time.Time) *Trip {
	if w.most == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.account(name, now)
	if t := (Ledger{a}).Check(StopsCalls); t != nil {
		return t
	}
	r := w.caller(name)
	r.times = append(r.times, now)
	return nil
}

// Account returns how much of the window the caller has used.
func (w *Windows) Account(name string, now time.Time) Account {
	if w.most == 0 {
		return Account{Limit: UserSkillCalls, Of: Calls}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.account(name, now)
}

// account is Account. The caller holds mu.
func (w *Windows) account(name string, now time.Time) Account {
	r := w.caller(name)
	r.times = slices.DeleteFunc(r.times, func(t time.Time) bool { return now.Sub(t).Abs() > w.period })
	a := Account{Limit: UserSkillCalls, Of: Calls, Stops: StopsCalls, Used: int64(len(r.times)), Most: int64(w.most)}
	if len(r.times) >= w.most {
		a.Free = slices.MinFunc(r.times, time.Time.Compare).Add(w.period + after)
	}
	return a
}

// Limits reports whether there is a limit at all.
func (w *Windows) Limits() bool { return w.most > 0 }

// Period is the length of the window.
func (w *Windows) Period() time.Duration { return w.period }

// Recall counts a call that the caller made earlier, whatever the limit. It is
// for calls before a restart, told before the caller's next Take.
func (w *Windows) Recall(name string, at time.Time) {
	if w.most == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.caller(name)
	r.times = append(r.times, at)
}

// Return gives back the caller's last n calls, which were not made after all.
func (w *Windows) Return(name string, n int) {
	if w.most == 0 || n <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r, ok := w.callers.Peek(name); ok {
		r.times = r.times[:max(len(r.times)-n, 0)]
	}
}

// caller returns what is known of the caller and notes that it was seen. The
// caller holds mu.
func (w *Windows) caller(name string) *recent {
	if r, ok := w.callers.Get(name); ok {
		return r
	}
	r := new(recent)
	w.callers.Add(name, r)
	return r
}
