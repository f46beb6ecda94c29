// Command consult asks an agent that has several others work, and shows who says what.
//
// Usage: consult MESH AGENT QUESTION, as in
// consult 127.0.0.1:7420 research "How long does a refund take?"
// It needs nothing but generated code.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
)

const extension = "urn:agentmesh:ext:mesh:v1"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: consult MESH AGENT QUESTION")
	}
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	thread := uuid.NewString()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "thread-id", thread, "a2a-extensions", extension)
	state, subtasks, err := consult(ctx, conn, thread, os.Args[2], os.Args[3])
	if err == nil {
		err = results(ctx, conn, thread, subtasks)
	}
	if err != nil {
		log.Fatal(err)
	}
	if fmt.Println(state); state != a2apb.TaskState_TASK_STATE_COMPLETED {
		os.Exit(1)
	}
}

// consult asks the agent, and shows what is said as it comes. It returns how the task ended
// and the ids of the sub-tasks, as they were begun.
func consult(ctx context.Context, conn *grpc.ClientConn, thread, agent, question string) (state a2apb.TaskState, subtasks []string, err error) {
	detail, err := structpb.NewStruct(map[string]any{extension: map[string]any{"detail": true}})
	if err != nil {
		return state, nil, err
	}
	message := &a2apb.Message{MessageId: uuid.NewString(), ContextId: thread, Role: a2apb.Role_ROLE_USER,
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: question}}}, Metadata: detail}
	ctx = metadata.AppendToOutgoingContext(ctx, "agent", agent)
	stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(ctx, &a2apb.SendMessageRequest{Message: message})
	for err == nil {
		var update *a2apb.StreamResponse
		if update, err = stream.Recv(); err != nil {
			break
		}
		for _, p := range update.GetArtifactUpdate().GetArtifact().GetParts() {
			fmt.Printf("answer: %q\n", p.GetText())
		}
		if s := update.GetStatusUpdate(); s != nil {
			state = s.GetStatus().GetState()
			of := s.GetMetadata().GetFields()[extension].GetStructValue().GetFields()["execution"].GetStructValue().GetFields()
			if of == nil || of["parent"].GetStringValue() == s.GetTaskId() {
				continue // it is not below the agent that was asked
			}
			if id := of["id"].GetStringValue(); !slices.Contains(subtasks, id) {
				subtasks = append(subtasks, id)
			}
			if of["state"].GetStringValue() == "output" {
				fmt.Printf("%s says: %q\n", of["agent"].GetStringValue(), of["text"].GetStringValue())
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return state, subtasks, err
}

// results shows what came of each sub-task, by its id.
func results(ctx context.Context, conn *grpc.ClientConn, thread string, subtasks []string) error {
	executions := meshv1.NewExecutionServiceClient(conn)
	for _, id := range subtasks {
		got, err := executions.GetExecution(ctx, &meshv1.GetExecutionRequest{ThreadId: thread, ExecutionId: id})
		if err != nil {
			return err
		}
		x, of := got.GetExecution(), got.GetExecution().GetExecution()
		fmt.Printf("%s by %s is %s %s: %q\n", of.GetLabel(), of.GetAgent(), x.GetStatus(), cmp.Or(x.GetReason(), "-"), x.GetResult())
	}
	return nil
}
