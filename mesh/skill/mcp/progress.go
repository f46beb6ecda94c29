package mcp

import (
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Listeners hear of the progress of calls. The zero value is ready.
type listeners struct {
	mu sync.Mutex
	of map[string]func(skill.Progress) // by token
}

// join returns the token under which a server tells of progress, until done is
// called.
func (l *listeners) join(hear func(skill.Progress)) (token string, done func()) {
	token = mesh.NewEventID()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]func(skill.Progress){}
	}
	l.of[token] = hear
	return token, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.of, token)
	}
}

// tell passes on what a server says, if somebody listens: the text as one clean line.
func (l *listeners) tell(p *sdk.ProgressNotificationParams) {
	if p == nil {
		return
	}
	token, _ := p.ProgressToken.(string)
	l.mu.Lock()
	defer l.mu.Unlock() // who listens does not block
	if hear := l.of[token]; hear != nil {
		hear(skill.Progress{Text: line(p.Message, maxTold), Done: p.Progress, Total: p.Total})
	}
}
