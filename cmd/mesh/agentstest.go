package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agentmesh/mesh/conformance"
	"agentmesh/mesh/security/credentials"
	"agentmesh/mesh/security/transport"
)

// errTestFailed is an exit code: the report says what failed.
var errTestFailed = errors.New("a check failed")

func (a *app) agentsTestCommand() *cobra.Command {
	var o conformance.Options
	var asJSON bool
	var given []string
	cmd := &cobra.Command{
		Use:   "test CARD-URL",
		Short: "Test an A2A agent, without a mesh",
		Long: `Test any A2A agent by the URL of its card, or by the address that serves it at
/.well-known/agent-card.json, from here and without a mesh. The card is read and the agent
is called as a mesh does it, over each interface of the card, one check after the other:

  connect, send, stream, get task, memory over three messages, question and answer, cancel,
  unknown task, unknown method, malformed message, failure

Each has a verdict. "failed" is what fails in a mesh; "warning" is what A2A wants otherwise
and a mesh bears; "skipped" could not be told. The exit code is 1 if a check failed, and 0
if there are warnings only.

The agent gets real messages: test it where they do no harm. It is sent no token and no
certificate of a mesh.

` + credentialHelp,
		Example: `  mesh agents test http://127.0.0.1:9001
  mesh agents test 127.0.0.1:9001 --message "What is 2 + 2?" --question "Book a room" --answer "The small one"
  mesh agents test https://agents.example.com/card.json --json --timeout 5s`,
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(exactly("the card's URL")(cmd, args), alone(cmd))
		},
		RunE: a.action(func(ctx context.Context, args []string) error {
			source, err := transport.New(transport.Options{CA: a.flags.ca, System: true})
			if err != nil {
				return err
			}
			all, err := a.readCredentials(given)
			if err != nil {
				return err
			}
			for _, c := range all {
				o.Credentials = append(o.Credentials, credentials.Given{Scheme: c.GetScheme(), Secret: c.GetValue()})
			}
			o.TLS, o.Timeout = source.Client, a.flags.timeout
			r := &testReport{app: a, asJSON: asJSON, count: map[conformance.Verdict]int{}}
			o.Begin = r.begin
			err = conformance.Test(ctx, args[0], o, r.add)
			r.end()
			switch {
			case err != nil:
				return err
			case r.count[conformance.Failed] > 0:
				return errTestFailed
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Message, "message", "", "`text` of messages (default \"Hello\")")
	flags.StringVar(&o.Question, "question", "", "`text` that makes the agent ask something; without it that is not tested")
	flags.StringVar(&o.Answer, "answer", "", "`text` that answers what it asks (default \"Yes\")")
	flags.StringVar(&o.Long, "cancel", "", "`text` that keeps the agent at work, to be canceled (default that of --message)")
	flags.StringVar(&o.Failure, "error", "", "`text` that makes the agent fail; without it that is not tested")
	credentialFlag(cmd, &given)
	flags.BoolVar(&asJSON, "json", false, "print each finding as one line of JSON")
	return cmd
}

// alone refuses flags that say how a mesh is called, but for those that count for an agent
// too.
func alone(cmd *cobra.Command) (err error) {
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "ca" && f.Name != "timeout" && err == nil {
			err = fmt.Errorf("--%s is for calls to a mesh, and '%s' calls the agent itself", f.Name, cmd.CommandPath())
		}
	})
	return err
}

// A testReport prints findings as they come.
type testReport struct {
	*app
	asJSON bool
	on     string // the interface that is tested
	begun  bool
	count  map[conformance.Verdict]int
}

// begin tells who waits what is being done.
func (r *testReport) begin(f conformance.Finding) {
	if r.watches {
		r.notef("\r\x1b[K%s ...", oneLine(strings.TrimSpace(f.Interface+" "+f.Check)))
	}
}

// clear takes that away.
func (r *testReport) clear() {
	if r.watches {
		r.notef("\r\x1b[K")
	}
}

func (r *testReport) add(f conformance.Finding) {
	r.clear()
	r.count[f.Verdict]++
	if r.asJSON {
		line, err := json.Marshal(f)
		if err == nil { // it is made of texts
			r.printf("%s\n", line)
		}
		return
	}
	if !r.begun || f.Interface != r.on {
		r.printf("%s%s\n", map[bool]string{true: "\n"}[r.begun], oneLine(orText(f.Interface, "card")))
		r.begun, r.on = true, f.Interface
	}
	r.printf("  %-7s  %-17s  %s\n", f.Verdict, oneLine(f.Check), oneLine(f.Cause))
	if f.Remedy != "" {
		r.printf("  %-7s  %-17s  -> %s\n", "", "", oneLine(f.Remedy))
	}
}

// end counts what there was.
func (r *testReport) end() {
	r.clear()
	if r.asJSON || !r.begun {
		return
	}
	var parts []string
	for _, v := range []conformance.Verdict{conformance.OK, conformance.Warning, conformance.Failed, conformance.Skipped} {
		parts = append(parts, fmt.Sprintf("%d %s", r.count[v], v))
	}
	r.printf("\n%s\n", strings.Join(parts, ", "))
}
