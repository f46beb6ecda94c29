package openai

import (
	"encoding/json"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// assembly is a reply so far, in either protocol.
type assembly struct {
	done  llm.Done
	calls []mesh.ToolUse
	args  [][]byte // of calls whose arguments come in pieces
	size  int      // bytes of all calls
	// natives are what tools of the provider did and nobody was told yet.
	natives []llm.NativeUse
	ended   bool // nothing comes after this
}

// maxCalls bounds the calls of one reply, in bytes; they are kept until the
// reply is complete. Each counts for callOverhead at least.
const (
	maxCalls     = 256 << 10
	callOverhead = 64
)

func (a *assembly) state() *assembly { return a }

// begun reports whether the reply has begun, with that text. From then on the
// request is not sent again.
func (a *assembly) begun(text string) bool {
	return text != "" || len(a.calls) > 0 || len(a.natives) > 0 || a.done.Finish != ""
}

// tell yields what tools of the provider did, and returns false once nobody listens.
func (a *assembly) tell(yield func(llm.Chunk, error) bool) bool {
	for i := range a.natives {
		if !yield(llm.Chunk{Native: &a.natives[i]}, nil) {
			return false
		}
	}
	a.natives = nil
	return true
}

// finish yields the calls and the end of the reply, or returns why it failed.
func (a *assembly) finish(yield func(llm.Chunk, error) bool) error {
	if a.done.Finish == "error" {
		return mesh.Errorf(mesh.Unavailable, op, "The model's provider failed while it was answering; try again")
	}
	for i := range a.calls {
		if i < len(a.args) {
			a.calls[i].Arguments = string(a.args[i])
		}
		if !yield(llm.Chunk{Tool: &a.calls[i]}, nil) {
			return nil
		}
	}
	yield(llm.Chunk{Done: &a.done}, nil)
	return nil
}

// chatReply puts together a reply of the chat completions protocol.
type chatReply struct {
	assembly
	index []int // of calls, as the provider counts
}

// chatChunk is one event. Some gateways report a failure in an otherwise normal
// event, beside the choices or in one of them.
type chatChunk struct {
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content   string      `json:"content"`
			Refusal   string      `json:"refusal"`
			ToolCalls []callPiece `json:"tool_calls"`
		} `json:"delta"`
		Finish string    `json:"finish_reason"`
		Error  *apiError `json:"error"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error *apiError       `json:"error"`
}

// callPiece is a piece of a call.
type callPiece struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// add takes in one event and returns its text.
func (r *chatReply) add(event []byte) (string, error) {
	var c chatChunk
	if err := json.Unmarshal(event, &c); err != nil {
		return "", &protocolError{err}
	}
	if c.Error != nil {
		return "", c.Error
	}
	if c.Model != "" {
		r.done.Model = c.Model
	}
	if len(c.Usage) > 0 && string(c.Usage) != "null" {
		r.done.Usage = usageOf(c.Usage)
	}
	text := ""
	for _, choice := range c.Choices {
		if choice.Error != nil {
			return "", choice.Error
		}
		if choice.Index != 0 {
			continue
		}
		text += choice.Delta.Content + choice.Delta.Refusal
		for _, piece := range choice.Delta.ToolCalls {
			r.addCall(piece)
		}
		if choice.Finish != "" && choice.Finish != "null" {
			r.done.Finish = choice.Finish
		}
	}
	return text, nil
}

// addCall takes in a piece of a call. Pieces belong together by index, or, where
// a provider sends none, by id; one with neither continues the last call. A
// piece with a name begins a new call if that call has another id, or, where
// ids are missing, is complete: some providers number all calls alike.
func (r *chatReply) addCall(t callPiece) {
	at := r.callOf(t)
	if at >= 0 && t.Function.Name != "" && r.calls[at].Name != "" {
		have := &r.calls[at]
		switch {
		case t.ID != "" && have.ID != "" && t.ID != have.ID:
			at = slices.IndexFunc(r.calls, func(u mesh.ToolUse) bool { return u.ID == t.ID })
		case t.ID == "" && t.Index == nil && json.Valid(r.args[at]):
			at = -1
		}
	}
	if at < 0 {
		n := len(r.calls)
		if t.Index != nil {
			n = *t.Index
		}
		r.calls, r.args, r.index = append(r.calls, mesh.ToolUse{}), append(r.args, nil), append(r.index, n)
		at = len(r.calls) - 1
		r.size += callOverhead
	}
	call := &r.calls[at]
	if call.ID == "" {
		call.ID = t.ID
	}
	if call.Name == "" {
		call.Name = t.Function.Name
	}
	r.args[at] = append(r.args[at], t.Function.Arguments...)
	r.size += len(t.ID) + len(t.Function.Name) + len(t.Function.Arguments)
}

// callOf returns which call the piece belongs to by its index or id, or -1.
func (r *chatReply) callOf(t callPiece) int {
	last := len(r.calls) - 1
	switch {
	case t.Index != nil:
		for i := last; i >= 0; i-- {
			if r.index[i] == *t.Index {
				return i
			}
		}
		return -1
	case t.ID != "":
		if last >= 0 && r.calls[last].ID == "" {
			return last
		}
		return slices.IndexFunc(r.calls, func(u mesh.ToolUse) bool { return u.ID == t.ID })
	}
	return last
}
