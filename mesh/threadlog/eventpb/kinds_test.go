package eventpb_test

import (
	"math"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"agentmesh/mesh"
)

var (
	text  = rapid.StringN(0, 12, 40)
	texts = rapid.SliceOfN(text, 1, 3)
	blob  = rapid.SliceOfN(rapid.Byte(), 1, 20)
	num   = rapid.Int64()
	small = rapid.IntRange(math.MinInt32, math.MaxInt32)
	when  = rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMilli(rapid.Int64Range(-62_135_596_800_000+1, 253_402_300_799_999).Draw(t, "ms")).UTC()
	})
	state = rapid.Custom(func(t *rapid.T) mesh.TaskState { return mesh.TaskState(rapid.Int32Range(0, 8).Draw(t, "state")) })
	meta  = rapid.Custom(func(t *rapid.T) *structpb.Struct {
		if rapid.Bool().Draw(t, "no metadata") {
			return nil
		}
		return &structpb.Struct{Fields: map[string]*structpb.Value{text.Draw(t, "k"): structpb.NewStringValue(text.Draw(t, "v"))}}
	})
	parts = rapid.Custom(func(t *rapid.T) []*a2apb.Part {
		return []*a2apb.Part{
			{Content: &a2apb.Part_Text{Text: text.Draw(t, "text")}},
			{Content: &a2apb.Part_Raw{Raw: blob.Draw(t, "raw")}, MediaType: "image/png", Metadata: meta.Draw(t, "meta")},
		}
	})
	message = rapid.Custom(func(t *rapid.T) *a2apb.Message {
		if rapid.Bool().Draw(t, "no message") {
			return nil
		}
		return &a2apb.Message{MessageId: text.Draw(t, "id"), Parts: parts.Draw(t, "parts"), Role: a2apb.Role_ROLE_USER}
	})
	execution = rapid.Custom(func(t *rapid.T) mesh.Execution {
		x := mesh.Execution{
			ID: mesh.ExecutionID(text.Draw(t, "id")), Parent: mesh.ExecutionID(text.Draw(t, "parent")),
			Kind: mesh.Kind(text.Draw(t, "kind")), Agent: text.Draw(t, "agent"), User: text.Draw(t, "user"),
			Label: text.Draw(t, "label"), Text: text.Draw(t, "text"), MaxToolCalls: small.Draw(t, "calls"),
		}
		if rapid.Bool().Draw(t, "more") {
			x.Skills, x.DependsOn, x.Deadline = texts.Draw(t, "skills"), []mesh.ExecutionID{"a", "b"}, when.Draw(t, "deadline")
		}
		return x
	})
)

// bodies draws a body of each kind. Every kind of package mesh must be here; a
// test below sees to it.
var bodies = map[string]func(t *rapid.T) mesh.Body{
	"MessagePosted": func(t *rapid.T) mesh.Body {
		return mesh.MessagePosted{Message: message.Draw(t, "message"), User: text.Draw(t, "user"), Digest: blob.Draw(t, "digest"),
			Permissions: []mesh.Permission{mesh.Permission(text.Draw(t, "permission")), mesh.PermChat}}
	},
	"ArtifactAppended": func(t *rapid.T) mesh.Body {
		return mesh.ArtifactAppended{
			Artifact: &a2apb.Artifact{ArtifactId: text.Draw(t, "id"), Parts: parts.Draw(t, "parts"), Extensions: texts.Draw(t, "ext")},
			Append:   rapid.Bool().Draw(t, "append"), LastChunk: rapid.Bool().Draw(t, "last"), Metadata: meta.Draw(t, "meta"),
		}
	},
	"SkillCalled": func(t *rapid.T) mesh.Body {
		return mesh.SkillCalled{Call: text.Draw(t, "call"), Skill: text.Draw(t, "skill"), Args: text.Draw(t, "args"),
			Source: text.Draw(t, "source"), Version: text.Draw(t, "version")}
	},
	"ToolReturned": func(t *rapid.T) mesh.Body {
		return mesh.ToolReturned{Call: text.Draw(t, "call"), Name: text.Draw(t, "name"), Failed: rapid.Bool().Draw(t, "failed"),
			Content: text.Draw(t, "content"), Cause: mesh.Cause(text.Draw(t, "cause"))}
	},
	"ApprovalAsked": func(t *rapid.T) mesh.Body {
		return mesh.ApprovalAsked{Call: text.Draw(t, "call"), Skill: text.Draw(t, "skill"), Args: text.Draw(t, "args"), Text: text.Draw(t, "text"), Version: text.Draw(t, "version")}
	},
	"ApprovalSettled": func(t *rapid.T) mesh.Body {
		return mesh.ApprovalSettled{Call: text.Draw(t, "call"), Approved: rapid.Bool().Draw(t, "approved"), Text: text.Draw(t, "text")}
	},
	"SkillReturned": func(t *rapid.T) mesh.Body {
		return mesh.SkillReturned{Call: text.Draw(t, "call"), Failed: rapid.Bool().Draw(t, "failed"),
			Content: text.Draw(t, "content"), Files: texts.Draw(t, "files"), Duration: time.Duration(num.Draw(t, "duration")),
			Metadata: text.Draw(t, "metadata")}
	},
	"ModelReplied": func(t *rapid.T) mesh.Body {
		return mesh.ModelReplied{Model: text.Draw(t, "model"), Text: text.Draw(t, "text"),
			Tools: []mesh.ToolUse{{ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Arguments: text.Draw(t, "args")}},
			Usage: mesh.Usage{Prompt: num.Draw(t, "p"), Completion: num.Draw(t, "c"), Cached: num.Draw(t, "h"),
				CacheWrite: num.Draw(t, "w"), Cost: rapid.Float64Min(0).Draw(t, "cost"), Unpriced: num.Draw(t, "u")}, Finish: text.Draw(t, "finish")}
	},
	"DispatchSettled": func(t *rapid.T) mesh.Body {
		return mesh.DispatchSettled{Child: mesh.ExecutionID(text.Draw(t, "child")), State: state.Draw(t, "state"),
			Result: text.Draw(t, "result"), Reason: text.Draw(t, "reason")}
	},
	"StateNoted": func(t *rapid.T) mesh.Body {
		return mesh.StateNoted{Agent: text.Draw(t, "agent"), Data: blob.Draw(t, "data")}
	},
	"CancelRequested": func(t *rapid.T) mesh.Body {
		return mesh.CancelRequested{By: text.Draw(t, "by"), Reason: text.Draw(t, "reason")}
	},
	"LimitTripped": func(t *rapid.T) mesh.Body {
		return mesh.LimitTripped{Limit: text.Draw(t, "limit"), Detail: text.Draw(t, "detail"), Used: num.Draw(t, "used"), Most: num.Draw(t, "most"), Free: when.Draw(t, "free")}
	},
	"ThreadClaimed": func(t *rapid.T) mesh.Body {
		return mesh.ThreadClaimed{Epoch: mesh.Epoch(num.Draw(t, "epoch")), Node: text.Draw(t, "node")}
	},
	"TaskOpened": func(t *rapid.T) mesh.Body { return mesh.TaskOpened{Execution: execution.Draw(t, "execution")} },
	"TaskMoved": func(t *rapid.T) mesh.Body {
		return mesh.TaskMoved{State: state.Draw(t, "state"), Message: message.Draw(t, "message"), Reason: text.Draw(t, "reason"),
			RemoteTask: text.Draw(t, "task"), RemoteContext: text.Draw(t, "context"), Metadata: meta.Draw(t, "meta")}
	},
	"DispatchIssued": func(t *rapid.T) mesh.Body {
		return mesh.DispatchIssued{Child: execution.Draw(t, "child"), Message: message.Draw(t, "message")}
	},
	"HandoffStarted": func(t *rapid.T) mesh.Body {
		return mesh.HandoffStarted{From: text.Draw(t, "from"), To: text.Draw(t, "to"), Reason: text.Draw(t, "reason"),
			Summary: text.Draw(t, "summary"), RecentMessages: small.Draw(t, "recent"),
			PreserveState: rapid.Bool().Draw(t, "preserve"), ReturnExpected: rapid.Bool().Draw(t, "return"), ToName: text.Draw(t, "to name")}
	},
	"HandoffEnded": func(t *rapid.T) mesh.Body {
		return mesh.HandoffEnded{Started: mesh.Seq(num.Draw(t, "started")), Outcome: mesh.HandoffOutcome(text.Draw(t, "outcome")),
			Summary: text.Draw(t, "summary"), By: text.Draw(t, "by")}
	},
}
