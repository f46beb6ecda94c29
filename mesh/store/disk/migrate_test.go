package disk

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// before writes the data file of a folder of version 0 into a new folder. It is
// one that the last program without versions made: a mesh of one agent, and one
// conversation of ten events.
func before(t *testing.T) (path string) { return old(t, 0) }

// old writes the data file that a program of that version made into a new folder.
func old(t *testing.T, version int) (path string) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("testdata/version-%d.db.gz", version))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "mesh.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// conversation is the one of before.
var conversation = mesh.ThreadKey{Tenant: mesh.DefaultTenant, ID: "550e8400-e29b-41d4-a716-446655440000"}

// look reads the file as it is on disk.
func look(t *testing.T, path string, fn func(*bolt.Tx) error) {
	t.Helper()
	if err := readFile(path, fn); err != nil {
		t.Fatal(err)
	}
}

func versionOf(t *testing.T, path string) (version int) {
	t.Helper()
	look(t, path, func(tx *bolt.Tx) error {
		n, err := getNumber(tx, keyVersion)
		version = int(n)
		return err
	})
	return version
}

func checkConversation(t *testing.T, s *Store) {
	t.Helper()
	info, ok, err := s.Info(t.Context(), conversation)
	recs, readErr := s.Read(t.Context(), conversation, 0, 100)
	if err := errors.Join(err, readErr); err != nil || !ok || info.Last != 10 || len(recs) != 10 {
		t.Fatalf("the conversation is %+v, %v with %d events, %v", info, ok, len(recs), err)
	}
}

// Folders of every version open with all that was in them and are of the newest
// version then, but for those of versions to come.
func TestFoldersOfEveryVersionOpen(t *testing.T) {
	step := func(name string) migration {
		return func(tx *bolt.Tx) error { return once(tx, name) }
	}
	all := append(migrations[:len(migrations):len(migrations)], step("second"), step("third"))
	now := firstVersion + len(migrations)
	for from := range now + 3 {
		for to := now; to <= now+2; to++ {
			t.Run(fmt.Sprint(from, " by ", to), func(t *testing.T) {
				path := old(t, min(from, 1))
				for _, version := range []int{from, to} {
					if version < firstVersion {
						continue // as it is
					}
					raw, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					s, err := Open(path, Options{migrations: all[:version-firstVersion]})
					if version < from {
						wantNewer(t, path, err, raw, from, to)
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					if from == 0 {
						checkConversation(t, s)
					} else {
						checkContents(t, s)
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					if got := versionOf(t, path); got != version {
						t.Errorf("it is of version %d, want %d", got, version)
					}
				}
				look(t, path, func(tx *bolt.Tx) error {
					for i, name := range []string{"second", "third"} {
						if ran := tx.Bucket([]byte(name)) != nil; ran != (i+now < to) {
							t.Errorf("the migration %s ran: %v", name, ran)
						}
					}
					if tx.Bucket(bucketLog) != nil {
						t.Error("the file has the old log still")
					}
					return nil
				})
			})
		}
	}
}

// once is a migration that fails if it has run before.
func once(tx *bolt.Tx, name string) error {
	_, err := tx.CreateBucket([]byte(name))
	return err
}

// wantNewer checks that the folder was refused, and left alone.
func wantNewer(t *testing.T, path string, err error, raw []byte, is, knows int) {
	t.Helper()
	if !mesh.IsCode(err, mesh.Precondition) {
		t.Fatalf("%v, want a Precondition error", err)
	}
	for _, words := range []string{filepath.Dir(path), fmt.Sprint("of version ", is), fmt.Sprint("up to ", knows), "newer program", "--data"} {
		if !strings.Contains(mesh.DetailOf(err), words) {
			t.Errorf("%q does not say %q", mesh.DetailOf(err), words)
		}
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(raw) {
		t.Errorf("the file was changed, %v", err)
	}
}

// A folder of a version to come has nothing that is understood here: not what is
// in it decides, but the version.
func TestAVersionToComeIsRefusedWhateverIsInIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	raw := made(t, func(tx *bolt.Tx) error {
		if _, err := tx.CreateBucket(bucketMeta); err != nil {
			return err
		}
		return putNumber(tx, keyVersion, 7)
	})
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path, Options{})
	wantNewer(t, path, err, raw, 7, firstVersion+len(migrations))
	if _, err := os.Stat(path + markSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was marked: %v", err)
	}
}

func TestANewFolderIsOfTheNewestVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := versionOf(t, path), firstVersion+len(migrations); got != want {
		t.Errorf("it is of version %d, want %d", got, want)
	}
}

// A migration that fails changes nothing, and those before it stay done.
func TestAMigrationThatFailsIsBegunAgain(t *testing.T) {
	path := before(t)
	full := errors.New("no room")
	fails := func(tx *bolt.Tx) error { return errors.Join(once(tx, "half"), full) }
	all := append(migrations[:len(migrations):len(migrations)], fails)
	for range 2 {
		_, err := Open(path, Options{migrations: all})
		if !mesh.IsCode(err, mesh.Precondition) || !errors.Is(err, full) || versionOf(t, path) != firstVersion+len(migrations) {
			t.Fatalf("%v, and the folder is of version %d", err, versionOf(t, path))
		}
	}
	all[len(migrations)] = func(tx *bolt.Tx) error { return once(tx, "half") }
	s, err := Open(path, Options{migrations: all})
	if err != nil {
		t.Fatal(err)
	}
	checkConversation(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// migrateEnv, when set, makes the test binary a process that opens the file it
// names with slow migrations; stopEnv is the row at which it waits to be killed.
const (
	migrateEnv = "DISK_TEST_MIGRATE"
	stopEnv    = "DISK_TEST_STOP"
	slowRows   = 600 // that each slow migration writes
)

// slow are migrations that rewrite many rows: each adds one to all of them, and
// says after each row how many it has done.
func slow(said func(row int)) []migration {
	all := migrations[:len(migrations):len(migrations)]
	for i := range 2 {
		all = append(all, func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("rows"))
			for row := 0; row < slowRows && err == nil; row++ {
				k := binary.BigEndian.AppendUint64(nil, uint64(row))
				v := append(make([]byte, 0, 512), b.Get(k)...)
				err = b.Put(k, append(v, 'x'))
				said(i*slowRows + row)
			}
			return err
		})
	}
	return all
}

func migrateChild(path string) int {
	stop, err := strconv.Atoi(os.Getenv(stopEnv))
	if err != nil {
		stop = -1
	}
	_, err = Open(path, Options{
		migrations: slow(func(row int) {
			fmt.Println(row)
			if row == stop {
				time.Sleep(time.Hour) // until it is killed
			}
		}),
		at: func(step string) {
			fmt.Println(step)
			if step == os.Getenv(stopEnv) {
				time.Sleep(time.Hour)
			}
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("opened")
	time.Sleep(time.Hour)
	return 0
}

// killMigration lets a child migrate until it says a line, and kills it after
// some more time.
func killMigration(t *testing.T, path, line, stop string, more time.Duration) {
	t.Helper()
	killed(t, []string{migrateEnv + "=" + path, stopEnv + "=" + stop}, more, func(said string) bool { return said == line })
}

// A migration that kill -9 cut off is not there at all, and is begun again; one
// that was done is not done again.
func TestAMigrationThatIsKilledIsWholeOrNotThere(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	rowsAt := func(path string) (rows int, text string) {
		look(t, path, func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte("rows"))
			if b == nil {
				return nil
			}
			return b.ForEach(func(_, v []byte) error {
				if rows++; text != "" && text != string(v) {
					t.Fatalf("seed %d: rows %q and %q in one file", seed, text, v)
				}
				text = string(v)
				return nil
			})
		})
		return rows, text
	}
	for round := range 10 {
		path := before(t)
		line, stop, more := "opened", "", time.Duration(0)
		if row := fmt.Sprint(r.IntN(2 * slowRows)); round < 6 { // in the middle for certain
			line, stop = row, row
		} else if round < 9 { // about the end of a migration
			line, more = fmt.Sprint(slowRows-1), time.Duration(r.IntN(8000))*time.Microsecond
		}
		killMigration(t, path, line, stop, more)
		version := versionOf(t, path)
		rows, text := rowsAt(path)
		done := max(version-firstVersion-len(migrations), 0)
		if want := min(done, 1) * slowRows; rows != want || text != strings.Repeat("x", done) {
			t.Fatalf("seed %d: version %d has %d rows of %q", seed, version, rows, text)
		}
		if stop != "" && done == 2 {
			t.Fatalf("seed %d: it was not killed in the middle", seed)
		}
		s, err := Open(path, Options{migrations: slow(func(int) {})})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkConversation(t, s)
		if _, err := s.Append(t.Context(), logtest.Key(1), &threadlog.Batch{Entries: []threadlog.Entry{{Data: []byte("more")}}}); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if rows, text := rowsAt(path); rows != slowRows || text != "xx" {
			t.Fatalf("seed %d: in the end there are %d rows of %q", seed, rows, text)
		}
		t.Logf("killed at version %d", version)
	}
}
