//go:build linux

package bench_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// patient is how long anything may take that must happen.
const patient = 2 * time.Minute

// cores are where processes run.
type cores struct {
	server, load, all unix.CPUSet
	only              bool // there is one core: nothing is apart
}

// splitCores gives the last core to what is measured and the others to the rest.
func splitCores() (c cores, err error) {
	if err := unix.SchedGetaffinity(0, &c.all); err != nil {
		return c, err
	}
	c.load = c.all
	last := -1
	for cpu := range len(c.all) * 64 {
		if c.all.IsSet(cpu) {
			last = cpu
		}
	}
	c.server.Set(last)
	if c.only = c.all.Count() == 1; !c.only {
		c.load.Clear(last)
	}
	return c, nil
}

// keepTo moves all threads of this process to the cores.
func keepTo(set unix.CPUSet) error {
	for _, tid := range threads(os.Getpid()) {
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	runtime.GOMAXPROCS(set.Count())
	return nil
}

func threads(pid int) (all []int) {
	found, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)) // none, if it has ended
	for _, e := range found {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, tid)
		}
	}
	return all
}

// A process is one that takes part. It ends with its input, or by its id.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  words
	ended chan struct{}
}

// words is what a process wrote.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
	return w.text.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// launch starts the command on the cores and returns the groups of ready in what
// it writes. A child inherits the cores of the thread that makes it, so that it
// sees no others from its first instruction on.
func launch(cmd *exec.Cmd, on unix.CPUSet, ready *regexp.Regexp) (*process, []string, error) {
	p := &process{cmd: cmd, ended: make(chan struct{}), said: words{more: make(chan struct{}, 1)}}
	cmd.Stdout, cmd.Stderr = &p.said, &p.said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	p.stdin = stdin
	if err := startOn(cmd, on); err != nil {
		return nil, nil, err
	}
	go func() { // ends with the process, which end sees to
		_ = cmd.Wait()
		close(p.ended)
	}()
	for limit := time.After(patient); ; {
		if at := ready.FindStringSubmatch(p.said.String()); at != nil {
			return p, at, nil
		}
		select {
		case <-p.said.more:
		case <-p.ended:
			return nil, nil, fmt.Errorf("%s ended at once: %s", cmd.Path, p.said.String())
		case <-limit:
			p.end()
			return nil, nil, fmt.Errorf("%s does not start: %s", cmd.Path, p.said.String())
		}
	}
}

func startOn(cmd *exec.Cmd, on unix.CPUSet) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		return err
	}
	if err := unix.SchedSetaffinity(0, &on); err != nil {
		return err
	}
	err := cmd.Start()
	return errors.Join(err, unix.SchedSetaffinity(0, &own))
}

// end asks the process to end, and sees that it does.
func (p *process) end() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(unix.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		p.kill()
	}
}

// kill ends the process as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// cpu is the processor time that the process has used, all threads of it, those
// that ended too.
func (p *process) cpu() (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED: see clock_getcpuclockid(3)
	var at unix.Timespec
	err := unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|sched), &at)
	return time.Duration(at.Nano()), err
}

// A usage is what processors did since the system started, and what of it was
// for us.
type usage struct{ busy, idle, ours time.Duration }

// used returns the usage, where ours is this process's, its children's that
// ended, and that of running.
func used(running []*process) (u usage, err error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	var n [8]int64 // user, nice, system, idle, iowait, irq, softirq, steal
	_, err = fmt.Sscanf(string(stat), "cpu %d %d %d %d %d %d %d %d", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7])
	const tick = 10 * time.Millisecond // USER_HZ
	u.idle = time.Duration(n[3]+n[4]) * tick
	u.busy = time.Duration(n[0]+n[1]+n[2]+n[5]+n[6]+n[7]) * tick
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		err = errors.Join(err, unix.Getrusage(who, &r))
		u.ours += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	for _, p := range running {
		if cpu, err := p.cpu(); err == nil { // else it has ended, and is in the sum
			u.ours += cpu
		}
	}
	return u, err
}

// others is the part of the processors that others used since then.
func (u usage) others(then usage) float64 {
	busy, idle := u.busy-then.busy, u.idle-then.idle
	return max(0, float64(busy-(u.ours-then.ours))/float64(busy+idle))
}

// private is the process's memory that is not a file's, in KiB.
func (p *process) private() (kib float64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	_, err = fmt.Sscanf(rest, "%f kB", &kib)
	return kib, err
}

// A counter counts what a process asks of its disk: the kernel counts calls, so
// that whatever store there is cannot count otherwise.
type counter map[string][]int // descriptors by the name of the call

// countSyncs begins to count. While it does, every call of the system is a little
// dearer: nothing else is measured meanwhile.
func (p *process) countSyncs() (c counter, err error) {
	c = counter{}
	for _, call := range []string{"fdatasync", "fsync"} {
		id, err := os.ReadFile(filepath.Join("/sys/kernel/tracing/events/syscalls", "sys_enter_"+call, "id"))
		if err != nil {
			return nil, fmt.Errorf("counting calls needs root and tracefs (mount -t tracefs none /sys/kernel/tracing): %w", err)
		}
		event, err := strconv.ParseUint(strings.TrimSpace(string(id)), 10, 64)
		if err != nil {
			return nil, err
		}
		for _, tid := range threads(p.cmd.Process.Pid) {
			attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Size: unix.PERF_ATTR_SIZE_VER5, Config: event, Bits: unix.PerfBitInherit}
			fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
			if err != nil {
				c.stop()
				return nil, fmt.Errorf("counting calls: %w", err)
			}
			c[call] = append(c[call], fd)
		}
	}
	return c, nil
}

// stop ends the counting and returns how often each call was made.
func (c counter) stop() map[string]float64 {
	sum := map[string]float64{}
	for call, fds := range c {
		for _, fd := range fds {
			var n [8]byte
			if _, err := unix.Read(fd, n[:]); err == nil {
				sum[call] += float64(binary.NativeEndian.Uint64(n[:]))
			}
			_ = unix.Close(fd)
		}
	}
	return sum
}

// A syncer measures what one fdatasync takes: of 4 KiB in the middle of a file
// whose blocks are there, as of a log that is written ahead.
type syncer struct {
	file *os.File
	at   int64
}

const (
	syncBlock = 4 << 10
	syncFile  = 8 << 20
)

func newSyncer(dir string) (*syncer, error) {
	f, err := os.Create(filepath.Join(dir, "prewritten"))
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(make([]byte, syncFile)); err != nil {
		return nil, err
	}
	return &syncer{file: f}, f.Sync()
}

// once writes a block, and returns how many µs it took until that was on disk.
func (s *syncer) once() (float64, error) {
	block := make([]byte, syncBlock)
	begin := time.Now()
	if _, err := s.file.WriteAt(block, s.at); err != nil {
		return 0, err
	}
	err := unix.Fdatasync(int(s.file.Fd()))
	s.at = (s.at + syncBlock) % syncFile
	return us(time.Since(begin)), err
}

// onDisk fails for folders that are in memory, where nothing is durable and
// nothing costs what it costs.
func onDisk(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return fmt.Errorf("%s is in memory: name a folder on a disk with -dir", dir)
	}
	return nil
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// environment is this process's without settings of a mesh.
func environment(more ...string) []string {
	var all []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MESH_") {
			all = append(all, v)
		}
	}
	return append(all, more...)
}
