package mesh

import (
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
)

// MaxHelp bounds what an agent asks of who dispatched it, what it has so far, and what it is
// answered, each in bytes.
const MaxHelp = 16 << 10

// Names of what is said about help in our extension's data.
const (
	keyHelp   = "help"        // in the status of an agent that waits with ReasonHelp
	keyAnswer = "help_answer" // in the message that answers it
)

// Help is what an agent needs from who dispatched it: it waits as INPUT_REQUIRED with
// ReasonHelp, and the text of its status is what it asks. The message that continues its
// task is the answer.
type Help struct {
	// Call is the id of its model's call that asks.
	Call string
	// Partial is what the agent has so far, at most MaxHelp bytes.
	Partial string
}

// Value is the request as extension data, under the name that comes with it.
func (h Help) Value() (name string, v *structpb.Value) {
	return keyHelp, object("call", h.Call, "partial_results", h.Partial)
}

// HelpOf returns what the metadata of a status asks for; false if it does not. What is too
// long is cut.
func HelpOf(metadata *structpb.Struct) (Help, bool) {
	f := extension(metadata)[keyHelp].GetStructValue().GetFields()
	return Help{Call: f["call"].GetStringValue(), Partial: Clip(f["partial_results"].GetStringValue(), MaxHelp-len("…"))}, f != nil
}

// A HelpAnswer says of a message that it answers a request for help.
type HelpAnswer struct {
	// Call is that of the Help.
	Call string
	// By is who answers: ByUser, or the id of the call by which the model of who
	// dispatched the agent did.
	By string
}

// ByUser is HelpAnswer.By of an answer that the user gave.
const ByUser = "user"

// Value is the answer as extension data, under the name that comes with it.
func (a HelpAnswer) Value() (name string, v *structpb.Value) {
	return keyAnswer, object("call", a.Call, "by", a.By)
}

// HelpAnswerOf returns which request for help the message with the metadata answers; false
// for none.
func HelpAnswerOf(metadata *structpb.Struct) (HelpAnswer, bool) {
	f := extension(metadata)[keyAnswer].GetStructValue().GetFields()
	return HelpAnswer{Call: f["call"].GetStringValue(), By: f["by"].GetStringValue()}, f != nil
}

func extension(metadata *structpb.Struct) map[string]*structpb.Value {
	return metadata.GetFields()[ExtensionURI].GetStructValue().GetFields()
}

// object is a value with the texts of the names, without those that are empty.
func object(pairs ...string) *structpb.Value {
	fields := map[string]*structpb.Value{}
	for i, name := range pairs {
		if i%2 == 0 && pairs[i+1] != "" {
			fields[name] = structpb.NewStringValue(strings.ToValidUTF8(pairs[i+1], "\uFFFD"))
		}
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: fields})
}
