package main

import (
	"context"
	"time"

	"agentmesh/mesh/threadlog/eventpb"
)

// showTree prints the thread's executions and, with follow, what becomes of them until
// nobody works any more.
func (a *app) showTree(ctx context.Context, c *client, id string, follow, asJSON bool) error {
	t, err := c.executions(ctx, id, true)
	if err != nil {
		return err
	}
	if asJSON {
		for _, x := range t.all {
			if err := printAll(a, x); err != nil {
				return err
			}
		}
	} else {
		a.printf("%s%s", t.text(time.Now()), sumLine(t.usage))
	}
	if !follow || !t.works() {
		return nil
	}
	p := pace{every: treeEvery}
	for ev, err := range c.followThread(ctx, id, t.seq) {
		if err != nil {
			return timeUp(ctx, err)
		}
		if eventpb.KindOf(ev) == "artifact_appended" || ev.GetSeq() <= t.seq { // text, or what is told already
			continue
		}
		if err := p.wait(ctx); err != nil {
			return timeUp(ctx, err)
		}
		next, err := c.executions(ctx, id, false)
		if err != nil {
			return err
		}
		if err := a.printNews(t, next, asJSON); err != nil {
			return err
		}
		if t = next; !t.works() {
			break
		}
	}
	if asJSON {
		return nil
	}
	if t, err = c.executions(ctx, id, true); err == nil {
		a.printf("\n%s%s", t.text(time.Now()), sumLine(t.usage))
	}
	return err
}

// treeEvery is how often a tree that is followed is read anew at most: what happens meanwhile is
// told at once.
const treeEvery = 200 * time.Millisecond

// A pace lets something happen once in so long at most, and the first time at once.
type pace struct {
	every time.Duration
	last  time.Time
}

func (p *pace) wait(ctx context.Context) error {
	select {
	case <-time.After(p.every - time.Since(p.last)):
		p.last = time.Now()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
