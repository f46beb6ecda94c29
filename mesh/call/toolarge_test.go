package call_test

import (
	"context"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
)

// finding R10: an event that is larger than what is read ends the call at once, in every
// binding and version, and its words say what the limit is: the stream is not taken for a
// broken one, nor its task looked for, which the agent is at work on; whether the stream is
// the first one or one that goes on after a break.
func TestAnEventThatIsTooLargeEndsTheCallAtOnce(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		for _, binding := range bindings {
			t.Run(map[bool]string{false: "at once, ", true: "after a break, "}[broken]+binding, func(t *testing.T) {
				t.Parallel()
				began, over := make(chan struct{}), make(chan struct{})
				defer close(over)
				var cut func() <-chan struct{}
				var large string
				f := foreign(t, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
					if !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) {
						return
					}
					<-began
					if broken {
						select {
						case <-cut():
						case <-over:
							return
						}
					}
					if yield(a2a.NewArtifactEvent(ec, a2a.NewTextPart(large)), nil) {
						<-over // at work, whoever is there
						yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
					}
				})
				cut, large = f.web.cut, strings.Repeat("x", 3<<20)
				if strings.HasPrefix(binding, "GRPC") {
					cut, large = f.net.cut, large+large
				}
				open := began
				var last mesh.TaskMoved
				for b := range call.Stream(t.Context(), f.client(t, f.at(binding)), saying("go")) {
					if m, ok := b.(mesh.TaskMoved); ok {
						if last = m; open != nil {
							close(open)
							open = nil
						}
					}
				}
				if last.State != failedAt || last.Reason != mesh.ReasonIllegal || !strings.Contains(words(last.Message), "the limit") {
					t.Errorf("ended with %v %s: %s", last.State, last.Reason, words(last.Message))
				}
			})
		}
	}
}
