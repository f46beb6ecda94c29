package mesh

import (
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// A Question is what the user is asked about one call, in a status that waits for
// the answer.
type Question struct {
	// Execution and Call are those of the [ApprovalAsked]; empty of a question
	// that is about no call that the log has.
	Execution ExecutionID
	Call      string
	// Text is the question as it is in the ApprovalAsked.
	Text string
	// At and Size say where the question stands in the text of the status, in
	// bytes: there its lines may be indented.
	At, Size int
}

// KeyAsks names the questions of a status in our extension's data: a list of
// objects with "execution", "call", "text", "at" and "size".
const KeyAsks = "asks"

// maxAsks bounds how many questions of a status are read.
const maxAsks = 256

// AsksValue returns the questions as extension data.
func AsksValue(questions []Question) *structpb.Value {
	list := make([]*structpb.Value, len(questions))
	for i, q := range questions {
		list[i] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"execution": structpb.NewStringValue(string(q.Execution)), "call": structpb.NewStringValue(q.Call),
			"text": structpb.NewStringValue(q.Text), "at": structpb.NewNumberValue(float64(q.At)), "size": structpb.NewNumberValue(float64(q.Size)),
		}})
	}
	return structpb.NewListValue(&structpb.ListValue{Values: list})
}

// Asks returns the questions in the metadata of a status; false if it does not
// say which there are.
func Asks(metadata *structpb.Struct) ([]Question, bool) {
	v, ok := metadata.GetFields()[ExtensionURI].GetStructValue().GetFields()[KeyAsks].GetKind().(*structpb.Value_ListValue)
	if !ok {
		return nil, false
	}
	var out []Question
	for _, v := range v.ListValue.GetValues()[:min(len(v.ListValue.GetValues()), maxAsks)] {
		f := v.GetStructValue().GetFields()
		out = append(out, Question{
			Execution: ExecutionID(f["execution"].GetStringValue()), Call: f["call"].GetStringValue(), Text: f["text"].GetStringValue(),
			At: int(f["at"].GetNumberValue()), Size: int(f["size"].GetNumberValue()),
		})
	}
	return out, true
}

// Shown reports whether a status with the text and the metadata asks its user the
// question: it says so, and the question stands where it says, on lines of its
// own. Whoever passes a question on cannot put another one in its place, nor hide
// that it belongs to more. A status of before, which does not say what it asks,
// shows a question that is a paragraph of its text.
func Shown(text string, metadata *structpb.Struct, q Question) bool {
	asks, told := Asks(metadata)
	if !told {
		return shows(text, q.Text)
	}
	return slices.ContainsFunc(asks, func(a Question) bool {
		return a.Execution == q.Execution && a.Call == q.Call && a.stands(text, q.Text)
	})
}

// stands reports whether the question is in the text, where it is said to be, as a
// paragraph.
func (q Question) stands(text, question string) bool {
	if q.At < 0 || q.Size <= 0 || q.At > len(text) || q.Size > len(text)-q.At {
		return false
	}
	before, after := text[:q.At], text[q.At+q.Size:]
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return strings.Trim(line, "0123456789. ") == "" && (after == "" || strings.HasPrefix(after, "\n\n")) &&
		slices.Equal(linesOf(text[q.At:q.At+q.Size]), linesOf(question))
}

// shows reports whether a text that a user is shown has the question in it, as a
// paragraph of its own: its lines are there one after the other, with whatever
// space around them, numbered or not, and a blank line or the end of the text
// comes next. A question that merely begins like another one, as one about "bob"
// beside one about "bob@example.com", is not shown by that.
func shows(text, question string) bool {
	want, lines := linesOf(question), linesOf(text)
	if len(want) == 0 {
		return false
	}
	for i := 0; i+len(want) <= len(lines); i++ {
		end := i + len(want)
		if unnumbered(lines[i], want[0]) && slices.Equal(lines[i+1:end], want[1:]) && (end == len(lines) || lines[end] == "") {
			return true
		}
	}
	return false
}

// linesOf returns the lines, with single spaces between their words, from the
// first to the last that has any.
func linesOf(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines
}

// unnumbered reports whether the line is the wanted one, perhaps behind numbers,
// as in "1. 2. May I?".
func unnumbered(line, want string) bool {
	for line != want {
		number, rest, ok := strings.Cut(line, ". ")
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
			return false
		}
		line = rest
	}
	return true
}

// ReasonOf returns why a task is in its state, as the event or the metadata of
// the status says; "" if neither does.
func ReasonOf(reason string, metadata *structpb.Struct) string {
	if reason != "" {
		return reason
	}
	return metadata.GetFields()[ExtensionURI].GetStructValue().GetFields()["reason"].GetStringValue()
}

// maxReason bounds a reason that an agent gives, in bytes: as google.rpc.ErrorInfo has it.
const maxReason = 63

// Why is why the task is in its state, for programs: the mesh's reason or, of one that
// failed, or waits at a limit or for a yes, its agent's. Other reasons say what the mesh
// did, which no agent says for it, and what is no word for programs is none.
func (b TaskMoved) Why() string {
	if b.Reason != "" {
		return b.Reason
	}
	said := ReasonOf("", b.Metadata)
	word := len(said) <= maxReason && strings.Trim(said, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
	if Interrupted(b.State) && (said == ReasonLimit || said == ReasonApproval) || b.State == a2apb.TaskState_TASK_STATE_FAILED && word {
		return said
	}
	return ""
}
