package skill

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Times of following files.
const (
	quiet   = 50 * time.Millisecond  // an editor is done when it did nothing for so long,
	hurry   = 500 * time.Millisecond // or at the latest
	recheck = 30 * time.Second       // some file systems do not tell of all changes
	lookout = time.Second            // a folder that is away may come back, which nobody tells

	defaultPoll = 2 * time.Second // of a Library
)

// A watcher tells of changes in the folders that it was given, until it is
// closed and both channels are.
type watcher struct {
	add    func(dir string) error
	close  func() error
	events <-chan fsnotify.Event
	errors <-chan error
}

func newWatcher() (*watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return &watcher{w.Add, w.Close, w.Events, w.Errors}, nil
}

// Run follows the files of the folders until ctx is done, and then returns nil.
// Where the system does not tell of changes, or of no more folders, it looks at
// all files every Poll instead. It is called once.
func (l *Library) Run(ctx context.Context) error {
	Follow(ctx, Followed{Read: l.follow, What: "skill files", Poll: l.poll, Logger: l.logger, watch: l.watch})
	return nil
}

// Followed are files that [Follow] follows.
type Followed struct {
	// Read reads what has changed at the paths on disk or, with all, anywhere. It calls
	// entered, unless it is nil, with the path of each folder before it reads it, and
	// returns the folders that cannot be read. It is not called concurrently.
	Read func(ctx context.Context, paths []string, all bool, entered func(dir string)) (away []string)
	// What are the files, for the log.
	What string
	// Poll is how often all is read where the system tells of no changes.
	Poll   time.Duration
	Logger *slog.Logger
	watch  func() (*watcher, error) // nil for that of the system
}

// Follow has files read, all at first and then those that change, until ctx is done.
func Follow(ctx context.Context, files Followed) {
	if files.watch == nil {
		files.watch = newWatcher
	}
	f := following{files: files, news: news{wake: make(chan struct{}, 1), dirty: map[string]bool{}},
		pace: time.NewTicker(recheck), settle: time.NewTimer(0), back: time.NewTimer(recheck)}
	defer f.stop()
	f.news.all = true // what changed before the folders were watched
	w, err := files.watch()
	if err != nil {
		f.degrade(err)
	} else {
		f.watcher = w
		f.collectors.Go(func() { f.news.collect(w) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.news.wake:
			f.wait()
		case <-f.settle.C:
			f.refresh(ctx, false)
		case <-f.pace.C:
			f.refresh(ctx, true)
		case <-f.back.C:
			f.lookOut(ctx)
		}
	}
}

// A following is the state of Follow.
type following struct {
	files      Followed
	news       news
	watcher    *watcher       // nil while polling
	collectors sync.WaitGroup // of what the watcher tells
	pace       *time.Ticker
	// settle fires when what the news are of is to be read.
	settle *time.Timer
	since  time.Time // of the oldest news, or zero
	// back fires when it is to be seen whether a folder of away is there again.
	back *time.Timer
	away []string
}

func (f *following) stop() {
	f.pace.Stop()
	f.settle.Stop()
	f.back.Stop()
	f.unwatch()
}

func (f *following) unwatch() {
	if f.watcher != nil {
		_ = f.watcher.close() // what is told from now on is of no interest
		f.watcher = nil
	}
	f.collectors.Wait()
}

// degrade goes on without a watcher.
func (f *following) degrade(why error) {
	f.files.Logger.Warn("changes of files are not told by the system; looking for them now and then instead",
		"files", f.files.What, "every", f.files.Poll, "error", why)
	f.unwatch()
	f.pace.Reset(f.files.Poll)
}

// wait has changed files read when their writers have paused.
func (f *following) wait() {
	now := time.Now()
	if f.since.IsZero() {
		f.since = now
	}
	f.settle.Reset(min(quiet, max(0, f.since.Add(hurry).Sub(now))))
}

// refresh reads what has changed; all has it look everywhere.
func (f *following) refresh(ctx context.Context, all bool) {
	f.since = time.Time{}
	paths, lost, failed := f.news.take()
	if failed != nil && f.watcher != nil {
		f.degrade(failed)
	}
	var entered func(string)
	if f.watcher != nil {
		entered = func(dir string) {
			if err := f.watcher.add(dir); err != nil && !isGone(err) && failed == nil {
				failed = err
			}
		}
	}
	f.away = f.files.Read(ctx, paths, all || lost, entered)
	if failed != nil && f.watcher != nil {
		f.degrade(failed)
	}
	f.lookOutLater()
}

// lookOut reads all files, and watches their folders, if one is there again that
// was away: what changed meanwhile nobody has told.
func (f *following) lookOut(ctx context.Context) {
	if slices.ContainsFunc(f.away, readable) {
		f.refresh(ctx, true)
	} else {
		f.lookOutLater()
	}
}

func (f *following) lookOutLater() {
	if len(f.away) > 0 {
		f.back.Reset(min(lookout, f.files.Poll))
	} else {
		f.back.Stop()
	}
}

func readable(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	_ = root.Close()
	return true
}

// follow reads the files at the paths on disk, or all. It returns those folders
// with skills that could not be read.
func (l *Library) follow(ctx context.Context, paths []string, all bool, entered func(dir string)) (away []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The only error is that ctx is done, which Run notices by itself.
	if dirty, located := l.locate(paths); located && !all {
		_, _ = l.refresh(ctx, dirty, entered)
	} else {
		_, _ = l.refreshAll(ctx, entered)
	}
	for _, folder := range l.folders {
		if folder.src.records["."] != nil {
			away = append(away, folder.dir)
		}
	}
	if l.tenantsAway {
		away = append(away, l.tenantDir)
	}
	return away
}

// news are what a watcher has told and nobody has looked at yet. They are
// collected at once, also while files are read: a watcher that cannot get rid
// of them takes no more folders.
type news struct {
	wake chan struct{} // says "look again"

	mu     sync.Mutex
	dirty  map[string]bool // paths on disk
	all    bool            // some were lost
	failed error           // the watcher is of no use any more
}

// maxNews is how many paths are remembered before it is simply all.
const maxNews = 4096

// collect takes what the watcher tells until it is closed.
func (n *news) collect(w *watcher) {
	events, failures := w.events, w.errors
	for events != nil || failures != nil {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
			} else {
				n.note(e.Name, nil)
			}
		case err, ok := <-failures:
			if !ok {
				failures = nil
			} else {
				n.note("", err)
			}
		}
	}
}

func (n *news) note(path string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case errors.Is(err, fsnotify.ErrEventOverflow) || len(n.dirty) >= maxNews:
		n.all = true
		clear(n.dirty)
	case err != nil:
		n.all, n.failed = true, err
	case !n.all:
		n.dirty[path] = true
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *news) take() (paths []string, all bool, failed error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	paths, all, failed = slices.Collect(maps.Keys(n.dirty)), n.all, n.failed
	clear(n.dirty)
	n.all, n.failed = false, nil
	return paths, all, failed
}
