package llm

import "context"

// Facts are what a program that stands in for a model has to know of the agent
// that it replies for. A model reads the same in its prompt and its tools.
type Facts struct {
	// Face says how Skills are called; "" where the agent calls none itself.
	Face Face
	// Skills are those that may be used: by the agent or, where it dispatches
	// others, by them.
	Skills []Skill
	// Dispatches says that the agent may have others carry out Skills, Consults that
	// it may ask those of Agents that can be asked.
	Dispatches, Consults bool
	// Pushed says that those who carry out Skills are dispatched by the names that Agents
	// has, and that their results come by themselves; otherwise agents are chosen by
	// skills, and their results are fetched.
	Pushed bool
	// Agents are those that may be asked, or handed over to.
	Agents []Agent
}

// A Face is how a model calls skills. Whichever it is, calls come to the same.
type Face string

// The faces.
const (
	FaceCommands Face = "cli"    // lines in ```cmd blocks of its text
	FaceUseSkill Face = "json"   // the JSON tool use_skill
	FaceDirect   Face = "direct" // a JSON tool for each skill, which Skill.Tool names
)

// A Skill is one that may be used.
type Skill struct {
	Name, Description string
	Tags              []string
	Tool              string // its own tool, with FaceDirect
	Reads             bool   // its access is read
	Asks              bool   // the mesh asks the user before each call
	Page              bool   // it is a text to be carried out, by other skills
	Parameters        []Parameter
}

// A Parameter is one of a skill. Type is string, integer, number, flag, array or
// object.
type Parameter struct {
	Name, Type, Description string
	Required                bool
	Default                 string
	Enum                    []string
}

// An Agent is one that may be asked, or handed over to.
type Agent struct {
	Name, Description string
	Skills, Tags      []string
	Ask, Handoff      bool     // what may be done
	Orchestrates      bool     // it takes requests with several parts apart
	Triggers          []string // phrases of users that are for it to handle itself
}

// A Mission is what another agent wants done, in its parts.
type Mission struct {
	Text    string
	Context string
	// Results are those of the agents that it waited for, by their ids.
	Results map[string]string
	// Answers are what the user said to questions about it, in their order.
	Answers []string
	// Help says that whoever gave the mission answers when the agent asks for help.
	Help bool
}

// A Knower is Tools that know facts.
type Knower interface {
	// Know adds them.
	Know(ctx context.Context, f *Facts) error
}

// A CommandCall is a call of CommandTool: the line that a model wrote or, of a
// program, which needs no line to be read, the skill and its arguments.
type CommandCall struct {
	Line      string         `json:"line"`
	At        int            `json:"at,omitempty"`
	Skill     string         `json:"skill,omitempty"`
	Arguments map[string]any `json:"arguments,omitempty"`
}
