package mesh

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// DefaultTenant is the tenant of callers that name none.
const DefaultTenant TenantID = "default"

// A TenantID names a tenant: 1 to 64 letters, digits, '-', '_' and '.'.
// The empty tenant owns what the operator shares with all tenants.
type TenantID string

// Validate returns an Invalid error that names the field tenant-id.
func (t TenantID) Validate() error {
	if !validName(string(t), 64) {
		return InvalidField("mesh.TenantID", "tenant-id",
			"must be 1 to 64 letters, digits, '-', '_' or '.', and is %q", clip(string(t)))
	}
	return nil
}

// A ThreadKey addresses one conversation. ID is a UUID v4 in lower-case text
// form, chosen by the client and immutable (S4-007 to S4-009); it equals the
// A2A context id.
type ThreadKey struct {
	Tenant TenantID
	ID     string
}

// String returns "tenant/id", for logs.
func (k ThreadKey) String() string { return string(k.Tenant) + "/" + k.ID }

// ParseThreadID checks that s is a UUID v4 and returns it in lower case.
func ParseThreadID(s string) (string, error) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != 36 || id.Version() != 4 {
		return "", InvalidField("mesh.ParseThreadID", "thread-id",
			"must be a UUID v4 such as 550e8400-e29b-41d4-a716-446655440000, and is %q", clip(s))
	}
	return id.String(), nil
}

// NewThreadID returns a new random thread id.
func NewThreadID() string { return uuid.NewString() }

// Seq is order, cursor and version of a thread at once. The first event of a
// thread has Seq 1; 0 is before the first.
type Seq int64

// Pos is the position of an event among all threads of a store, for Scan.
// The first event of a store has Pos 1 or more; positions only grow.
type Pos int64

// Epoch counts the claims of a thread. Appends of a driver carry the epoch
// they drive under and are refused once a later claim stands. 0 is no driver.
type Epoch int64

// An ExecutionID names one run of an agent, skill or turn. It carries its
// thread (docs/adr/0001): 32 hexadecimal digits of the thread's UUID, '-', and
// 16 random ones. The id of an A2A task that our edge or runtime makes is the
// id of its execution.
type ExecutionID string

// NewExecutionID returns a new id for an execution in the thread.
func NewExecutionID(threadID string) ExecutionID {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	id := make([]byte, 0, 64)
	for i := range len(threadID) {
		if threadID[i] != '-' {
			id = append(id, threadID[i])
		}
	}
	return ExecutionID(hex.AppendEncode(append(id, '-'), random[:]))
}

// ThreadID returns the thread that the execution belongs to. It returns false
// for text that is not an execution id.
func (e ExecutionID) ThreadID() (string, bool) {
	s := string(e)
	if len(s) != 49 || s[32] != '-' {
		return "", false
	}
	raw, err := hex.DecodeString(s[:32])
	if err != nil || strings.ToLower(s) != s {
		return "", false
	}
	if _, err := hex.DecodeString(s[33:]); err != nil {
		return "", false
	}
	id, err := uuid.FromBytes(raw)
	if err != nil || id.Version() != 4 {
		return "", false
	}
	return id.String(), true
}

// NewEventID returns a new id for an event or message: a UUID v7.
func NewEventID() string { return uuid.Must(uuid.NewV7()).String() }

// ValidAgentName reports whether s may name an agent: 1 to 64 lower-case
// letters, digits, '-' and '_', beginning with a letter.
func ValidAgentName(s string) bool {
	return s != "" && s[0] >= 'a' && s[0] <= 'z' && ValidLabel(s)
}

// MaxLabel bounds a label, in bytes.
const MaxLabel = 64

// ValidLabel reports whether s can be the name that an agent chose for one that it
// dispatches: at most [MaxLabel] of a-z, 0-9, _ and -, or none. People read it among the
// mesh's own words.
func ValidLabel(s string) bool {
	if len(s) > MaxLabel {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// OwnSkills returns which of the skill ids on an agent's card are names of
// skills, as "mail.send", that the patterns allow: what an agent that the mesh
// does not run itself is granted when nobody chose.
func OwnSkills(ids, patterns []string) []string {
	own := []string{}
	for _, id := range ids {
		domain, action, ok := strings.Cut(id, ".")
		named := ok && validName(domain, 48) && validName(action, 48) && !strings.Contains(action, ".")
		if named && slices.ContainsFunc(patterns, func(p string) bool { return SkillMatches(p, id) }) && len(own) < 100 {
			own = append(own, id)
		}
	}
	return own
}

func validName(s string, most int) bool {
	if len(s) == 0 || len(s) > most {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// clipped is how much of hostile input an error message of this package shows.
const clipped = 48

func clip(s string) string { return Clip(s, clipped) }

// Clip shortens text to at most that many bytes, between characters, and says
// so with an ellipsis, which comes on top. It is for what somebody else sent and
// an error message or a prompt shows.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}
