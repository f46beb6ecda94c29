// Package talk gets what was said in a conversation, as messages for a model.
//
// It keeps nothing. Its function may be called concurrently.
package talk

import (
	"context"
	"log/slog"

	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm"
)

// MaxBytes bounds the text of earlier messages, in bytes.
const MaxBytes = 48 << 10

// History returns the conversation up to the message of inv, which is last: at
// most limit messages, and no more than MaxBytes before it. It begins with a
// message of the user, as providers demand. When the thread cannot be read, the
// message alone is what there is: an answer without memory is better than none.
func History(ctx context.Context, inv *agent.Invocation, limit int, logger *slog.Logger) []llm.Message {
	items, err := inv.Mesh.History(ctx, limit)
	if err != nil {
		logger.WarnContext(ctx, "the conversation cannot be read", "thread", inv.Thread, "err", err)
	}
	return trim(agent.Conversation(items, inv.Text()))
}

// trim drops the oldest messages until the rest fits.
func trim(all []llm.Message) []llm.Message {
	first, size := len(all)-1, 0
	for first > 0 && size+len(all[first-1].Text) <= MaxBytes {
		first--
		size += len(all[first].Text)
	}
	for first < len(all)-1 && all[first].Role != llm.RoleUser {
		first++
	}
	return all[first:]
}
