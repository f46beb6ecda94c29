package skill

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"agentmesh/mesh"
)

// The values of Skill.Access.
const (
	AccessRead  = "read"  // changes nothing; may be called without dispatching an agent
	AccessWrite = "write" // has effects
)

// A Skill is one action that agents may call. A skill without a handler is a
// template: its body is given to a model to carry out.
type Skill struct {
	// Name is "domain.action".
	Name   string
	Domain string
	Action string
	// Description is one line that says what the skill does. Planners choose
	// skills by its words and those of Tags.
	Description string
	// Handler names the code that runs the skill, as "mail.send"; it is empty
	// for templates.
	Handler string
	// Schedule is a cron expression and Timezone its IANA zone, or ""; see
	// [Next].
	Schedule string
	Timezone string
	Author   string
	// Created is a date in the author's notation, as "2026-11-20".
	Created string
	// Confirm is what to ask the user before the call, or "".
	Confirm          string
	RequiresApproval bool
	// Access is AccessRead or AccessWrite.
	Access     string
	Tags       []string
	Parameters []Parameter
	// Body is the man page, in markdown.
	Body string
	// Path is the file's path below the root of the skills, with slashes.
	Path string
	// Source is the file as it was read.
	Source []byte
	// Version changes when Source does: the first 12 hexadecimal digits of its
	// SHA-256.
	Version string
	// Files are what else is in the skill's own folder, by path within it and
	// sorted; only skills in the Agent Skills format have any. They are read by
	// [Library.ReadFile] and never run.
	Files []string
	// Tenant is whose skill it is, or "" for all tenants'.
	Tenant mesh.TenantID
	// Schema is the JSON Schema of the arguments where Parameters cannot say
	// all of it, as for tools of other servers; else nil.
	Schema json.RawMessage
	// Output is the JSON Schema of what the skill says for programs, where it promises
	// one, as tools of other servers do; else nil.
	Output json.RawMessage
}

// RequestHandler is the handler of skills that are HTTP requests.
const RequestHandler = "http.request"

// HasEffects reports whether a call of the skill may change something or reach somebody: it
// writes, sends a request, or wants the user's approval. The text of a template does nothing.
func (s *Skill) HasEffects() bool {
	return s.Handler != "" && (s.Access != AccessRead || s.Handler == RequestHandler || s.Asks())
}

// versionOf returns the version of a skill with that source.
func versionOf(source []byte) string {
	sum := sha256.Sum256(source)
	return hex.EncodeToString(sum[:6])
}

// A Parameter is one named argument of a skill. Its JSON form is what models
// and planners are shown.
type Parameter struct {
	Name string `json:"name"`
	// Type is one of Types.
	Type        string `json:"type"`
	Required    bool   `json:"required,omitempty"`
	Description string `json:"description,omitempty"`
	// Items is the type of an array's elements; "" means string.
	Items string `json:"items,omitempty"`
	// Default is used when the argument is absent, written as text.
	Default string `json:"default,omitempty"`
	// Enum lists the values allowed, for arrays those of the elements.
	Enum []string `json:"enum,omitempty"`
}

// An Index describes a domain: its SKILL.md.
type Index struct {
	Domain      string
	Description string
	Body        string
	// Skills is how many skills the domain has; a catalog counts them.
	Skills int
}

// DefaultDomain is where skills go that users build.
const DefaultDomain = "workflows"

// Bounds of a skill, in bytes where nothing else is said.
const (
	MaxFile  = 256 << 10 // also of a file that belongs to a skill
	MaxBody  = 128 << 10
	MaxFiles = 256  // files that belong to a skill
	maxLine  = 1024 // one field of the front matter, in characters
	maxName  = 64   // one half of a name
)

// Types lists the types of parameters. A flag is a boolean that is true when
// it is named without a value.
func Types() []string {
	return []string{"string", "integer", "float", "boolean", "flag", "array", "object"}
}

var (
	partRule  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	paramRule = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
)

// ValidPart reports whether s may be one half of a skill's name: 1 to 64
// lower-case letters, digits and '_', beginning with a letter.
func ValidPart(s string) bool { return len(s) <= maxName && partRule.MatchString(s) }

// ReservedAction reports whether s is an action that has a meaning of its own
// in the catalog's language, so that no skill may be called so.
func ReservedAction(s string) bool { return s == "all" || s == "help" }

// DefaultAccess returns the access of an action whose file does not say it:
// read for search, get, list and read, write for all others.
func DefaultAccess(action string) string {
	if slices.Contains([]string{"search", "get", "list", "read"}, action) {
		return AccessRead
	}
	return AccessWrite
}

func validName(name string) bool {
	domain, action, _ := strings.Cut(name, ".")
	return ValidPart(domain) && ValidPart(action)
}

// pathOf returns the path that a skill of that name has.
func pathOf(name string) string { return strings.Replace(name, ".", "/", 1) + ".md" }
