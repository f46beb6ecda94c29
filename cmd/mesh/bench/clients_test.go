//go:build linux

package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// A door is a way to ask a server. It reads the whole stream, calls chunk with
// each piece of the answer, and returns nil if the task was completed.
type door func(ctx context.Context, text string, chunk func(string) error) error

// whole asks and checks the answer.
func (d door) whole(ctx context.Context, chunks int) error {
	return d.wholeOf(ctx, question{chunks: chunks})
}

func (d door) wholeOf(ctx context.Context, q question) error {
	c := &checked{chunks: q.chunks, size: max(q.size, smallest)}
	return errors.Join(d(ctx, q.String(), c.next), c.all())
}

// checked sees that every chunk comes, in order, once.
type checked struct{ chunks, size, seen int }

func (c *checked) next(text string) error {
	n, err := numberOf(text)
	if err == nil && len(text) != c.size {
		err = fmt.Errorf("a chunk of %d bytes instead of %d", len(text), c.size)
	}
	if err == nil && n != c.seen {
		err = fmt.Errorf("chunk %d instead of %d", n, c.seen)
	}
	c.seen++
	return err
}

func (c *checked) all() error {
	if c.seen != c.chunks {
		return fmt.Errorf("%d chunks instead of %d", c.seen, c.chunks)
	}
	return nil
}

func message(text string) *a2apb.SendMessageRequest {
	return &a2apb.SendMessageRequest{Message: &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_USER,
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}}
}

// byGRPC asks over gRPC.
func byGRPC(conn *grpc.ClientConn) door {
	client := a2apb.NewA2AServiceClient(conn)
	return func(ctx context.Context, text string, chunk func(string) error) error {
		stream, err := client.SendStreamingMessage(metadata.AppendToOutgoingContext(ctx, "a2a-version", "1.0"), message(text))
		if err != nil {
			return err
		}
		return drain(stream, chunk)
	}
}

// drain reads a stream to its end.
func drain(stream grpc.ServerStreamingClient[a2apb.StreamResponse], chunk func(string) error) error {
	state, why := a2apb.TaskState_TASK_STATE_UNSPECIFIED, ""
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) && state == a2apb.TaskState_TASK_STATE_COMPLETED {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the task is %v: %s: %w", state, why, err)
		}
		if u := r.GetStatusUpdate(); u != nil {
			state, why = u.GetStatus().GetState(), textOf(u.GetStatus().GetMessage().GetParts())
		}
		for _, p := range r.GetArtifactUpdate().GetArtifact().GetParts() {
			if err = chunk(p.GetText()); err != nil {
				return err
			}
		}
	}
}

// web keeps a connection for each of those who ask.
var web = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

// bySSE asks over HTTP, where answers are server-sent events. body makes the
// request of a message's JSON.
func bySSE(url string, body func(message json.RawMessage) any) door {
	return func(ctx context.Context, text string, chunk func(string) error) error {
		said, err := json.Marshal(map[string]any{"messageId": mesh.NewEventID(), "role": "ROLE_USER", "parts": []any{map[string]any{"text": text}}})
		if err != nil {
			return err
		}
		data, err := json.Marshal(body(said))
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("A2A-Version", "1.0")
		resp, err := web.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }() // only read
		return events(resp.Body, chunk)
	}
}

// events reads server-sent events of updates. It looks for what it needs, so that
// the client is not what is measured.
func events(body io.Reader, chunk func(string) error) error {
	completed, last := false, ""
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		switch last = data; {
		case strings.Contains(data, `"artifactUpdate"`):
			_, text, _ := strings.Cut(data, `"text":`)
			text, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), `"`), `"`)
			if err := chunk(text); err != nil {
				return fmt.Errorf("%w: %s", err, data)
			}
		case strings.Contains(data, `TASK_STATE_COMPLETED`):
			completed = true
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if !completed {
		return fmt.Errorf("the task is not completed: %s", last)
	}
	return nil
}

func byREST(url string) door {
	return bySSE(url+"/message:stream", func(m json.RawMessage) any { return map[string]any{"message": m} })
}

func byJSONRPC(url string) door {
	return bySSE(url+"/", func(m json.RawMessage) any {
		return map[string]any{"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": map[string]any{"message": m}}
	})
}

// as adds to the context whom the caller is and whom it asks.
func as(ctx context.Context, tenant, agent string) context.Context {
	ctx = metadata.AppendToOutgoingContext(ctx, "tenant-id", tenant)
	if agent != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "agent", agent)
	}
	return ctx
}

// latencies asks for chunks that come one by one, and returns how many µs each
// took from the agent to here. Both read one clock.
func (d door) latencies(ctx context.Context, n int) (took []float64, err error) {
	err = d(ctx, question{chunks: n, every: 2 * time.Millisecond}.String(), func(text string) error {
		at, err := saidAt(text)
		took = append(took, us(time.Since(at)))
		return err
	})
	return took, err
}

// gap is how many µs a user waits from the last word of an agent to the first of
// the one that it hands over to.
func (d door) gap(ctx context.Context) (float64, error) {
	var at []time.Time
	err := d(as(ctx, "default", "giver"), question{chunks: 1}.String(), func(string) error {
		at = append(at, time.Now())
		return nil
	})
	if err == nil && len(at) != 2 {
		err = fmt.Errorf("%d chunks of two agents", len(at))
	}
	if err != nil {
		return 0, err
	}
	return us(at[1].Sub(at[0])), nil
}

// open is how many µs it takes from a call to the first chunk.
func (d door) open(ctx context.Context) (float64, error) {
	var took float64
	begin := time.Now()
	err := d(ctx, question{chunks: 1}.String(), func(string) error {
		took = us(time.Since(begin))
		return nil
	})
	return took, err
}

// The errand takes three agents besides the one that is asked (who plans, who
// searches, who sends), and a yes.
const errandText = "Find my overdue tasks, then email the report to bob@example.com"

// errand runs one, and checks that it was run.
func errand(ctx context.Context, conn *grpc.ClientConn, tenant string) error {
	client := a2apb.NewA2AServiceClient(conn)
	ctx = as(ctx, tenant, "main")
	resp, err := client.SendMessage(ctx, message(errandText))
	t := resp.GetTask()
	if err != nil || t.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
		return fmt.Errorf("the errand does not ask: %v: %w", t, err)
	}
	yes := message("yes")
	yes.Message.TaskId, yes.Message.ContextId = t.GetId(), t.GetContextId()
	if resp, err = client.SendMessage(ctx, yes); err != nil || resp.GetTask().GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
		return fmt.Errorf("the errand is not done: %v: %w", resp, err)
	}
	var answer strings.Builder
	for _, a := range resp.GetTask().GetArtifacts() {
		answer.WriteString(textOf(a.GetParts()))
	}
	if !strings.Contains(answer.String(), "bob@example.com") || !strings.Contains(answer.String(), "Renew the certificate") {
		return fmt.Errorf("the errand's report is %q", answer.String())
	}
	return nil
}

// overdue makes the tenant's task that errands find.
func overdue(ctx context.Context, conn *grpc.ClientConn, tenant string) error {
	args, err := structpb.NewStruct(map[string]any{"title": "Renew the certificate", "due": time.Now().AddDate(0, 0, -2).Format(time.DateOnly)})
	if err != nil {
		return err
	}
	_, err = meshv1.NewSkillServiceClient(conn).RunSkill(as(ctx, tenant, ""), &meshv1.RunSkillRequest{Name: "tasks.create", Arguments: args, Approved: true})
	return err
}
