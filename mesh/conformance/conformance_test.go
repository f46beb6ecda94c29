package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/conformance"
)

const (
	ok      = conformance.OK
	warning = conformance.Warning
	failed  = conformance.Failed
	skipped = conformance.Skipped
)

// An agent on the official SDK has nothing to tell, in any binding and version.
func TestAgentsOfTheOfficialSDKPassInEveryBinding(t *testing.T) {
	t.Parallel()
	all := run(t, serve(t, &person{}), conformance.Options{Question: "ask", Failure: "fail", Long: "work"})
	want := map[string]conformance.Verdict{}
	for _, check := range []string{conformance.CheckConnect, conformance.CheckSend, conformance.CheckStream, conformance.CheckGetTask,
		conformance.CheckMemory, conformance.CheckQuestion, conformance.CheckCancel, conformance.CheckUnknownTask, conformance.CheckUnknownMethod,
		conformance.CheckMalformed, conformance.CheckFailure} {
		for _, b := range bindings {
			want[b+" "+check] = ok
			if check == conformance.CheckUnknownMethod && !strings.HasPrefix(b, "JSONRPC") {
				want[b+" "+check] = skipped
			}
		}
	}
	got := map[string]conformance.Verdict{}
	for _, f := range all {
		if f.Interface == "" {
			continue
		}
		b, _, _ := strings.Cut(f.Interface, " at ")
		if got[b+" "+f.Check] != "" {
			t.Errorf("told twice: %+v", f)
		}
		got[b+" "+f.Check] = f.Verdict
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s\n%v", diff, all)
	}
}

// What an agent cannot be asked is skipped, and what it does not remember is a warning.
func TestChecksThatCannotBeMadeAreSkipped(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		agent *person
		want  map[string]conformance.Verdict
	}{
		"messages alone": {&person{brief: true}, map[string]conformance.Verdict{conformance.CheckGetTask: skipped, conformance.CheckCancel: skipped,
			conformance.CheckMemory: ok, conformance.CheckSend: ok, conformance.CheckStream: ok, conformance.CheckQuestion: skipped, conformance.CheckFailure: skipped}},
		"no memory": {&person{forgetful: true}, map[string]conformance.Verdict{conformance.CheckMemory: warning, conformance.CheckGetTask: ok, conformance.CheckCancel: ok}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := run(t, serve(t, tt.agent, "JSONRPC 1.0"), conformance.Options{})
			for check, want := range tt.want {
				if got := of(all, check); !slices.Equal(got, []conformance.Verdict{want}) {
					t.Errorf("%s: %v, want %s: %v", check, got, want, all)
				}
			}
		})
	}
}

// What was asked for is wanted: an agent that does not ask, or does not fail.
func TestAQuestionThatIsNotAskedFails(t *testing.T) {
	t.Parallel()
	all := run(t, serve(t, &person{}, "GRPC 1.0"), conformance.Options{Question: "just talk", Failure: "just talk"})
	for _, check := range []string{conformance.CheckQuestion, conformance.CheckFailure} {
		if got := of(all, check); !slices.Equal(got, []conformance.Verdict{failed}) {
			t.Errorf("%s: %v", check, got)
		}
	}
}

// Streams are as A2A has them, or else a warning says so where the mesh bears it.
func TestIllegalStreamsAreTold(t *testing.T) {
	t.Parallel()
	const (
		begun = `{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`
		over  = `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}`
		whole = `{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}`
	)
	piece := func(task, id, more string) string {
		return fmt.Sprintf(`{"artifactUpdate":{"taskId":%q,"contextId":"c"%s,"artifact":{"artifactId":%q,"parts":[{"text":"x"}]}}}`, task, more, id)
	}
	for name, tt := range map[string]struct {
		says []string
		want []conformance.Verdict
		told string // in the last finding
	}{
		"legal":                   {[]string{begun, piece("t", "a", ""), piece("t", "a", `,"append":true,"lastChunk":true`), over}, []conformance.Verdict{ok}, "completed"},
		"whole":                   {[]string{whole}, []conformance.Verdict{ok}, ""},
		"after the end":           {[]string{begun, over, piece("t", "a", "")}, []conformance.Verdict{ok, warning}, "event 3 comes after the end"},
		"an update first":         {[]string{piece("t", "a", ""), over}, []conformance.Verdict{ok, warning}, "event 1 is an update before its task"},
		"appended to nothing":     {[]string{begun, piece("t", "a", `,"append":true`), over}, []conformance.Verdict{ok, warning}, "event 2"},
		"appended after the last": {[]string{begun, piece("t", "a", `,"lastChunk":true`), piece("t", "a", `,"append":true`), over}, []conformance.Verdict{ok, warning}, "event 3"},
		"of another task":         {[]string{begun, piece("u", "a", ""), over}, []conformance.Verdict{ok, warning}, "event 2 is of another task"},
		"no ids":                  {[]string{begun, `{"statusUpdate":{"status":{"state":"TASK_STATE_COMPLETED"}}}`}, []conformance.Verdict{ok, warning, warning}, "event 2 has no context id"},
		"no id of an artifact":    {[]string{begun, piece("t", "", ""), over}, []conformance.Verdict{ok, warning}, "event 2"},
		"no state":                {[]string{begun, `{"statusUpdate":{"taskId":"t","contextId":"c","status":{}}}`, over}, []conformance.Verdict{ok, warning}, "event 2 has no state"},
		"a message of nobody": {[]string{begun, `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","message":{"parts":[{"text":"x"}]}}}}`},
			[]conformance.Verdict{ok, warning, warning}, "event 2"},
		"a message between": {[]string{begun, `{"message":{"messageId":"m","role":"ROLE_AGENT","taskId":"t","contextId":"c","parts":[{"text":"x"}]}}`, over}, []conformance.Verdict{ok, warning}, "event 2"},
		"no end":            {[]string{begun}, []conformance.Verdict{ok, warning}, "the stream ends while the task is working"},
		"without a wrapper": {[]string{`{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}`}, []conformance.Verdict{ok, warning}, "none of the members"},
		"another spelling":  {[]string{`{"task":{"id":"t","contextId":"c","status":{"state":"done-ish"}}}`}, []conformance.Verdict{failed}, "state"},
		"of version 0.3":    {[]string{`{"task":{"id":"t","contextId":"c","status":{"state":"completed"}}}`}, []conformance.Verdict{ok, warning}, "states or roles"},
		"a time of no zone": {[]string{`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-01-02T03:04:05"}}}`}, []conformance.Verdict{ok, warning}, "not the JSON of A2A 1.0"},
		"nothing":           {nil, []conformance.Verdict{failed}, ""},
		"no content":        {[]string{`{}`}, []conformance.Verdict{failed, warning, warning}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := run(t, events(t, tt.says...), conformance.Options{})
			if got := of(all, conformance.CheckStream); !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v: %v", got, tt.want, all)
			}
			if i := slices.IndexFunc(all, func(f conformance.Finding) bool {
				return f.Check == conformance.CheckStream && strings.Contains(f.Cause, tt.told)
			}); i < 0 {
				t.Errorf("nothing says %q: %v", tt.told, all)
			}
			if got := of(all, conformance.CheckUnknownTask); !slices.Equal(got, []conformance.Verdict{failed}) { // it has a task for any id
				t.Errorf("unknown task: %v", got)
			}
		})
	}
}

// Who ends a test gets what is known, and the rest as skipped.
func TestATestThatIsInterruptedSaysWhatItKnows(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all []conformance.Finding
	o := conformance.Options{Begin: func(f conformance.Finding) {
		if f.Check == conformance.CheckMemory {
			cancel()
		}
	}}
	err := conformance.Test(ctx, serve(t, &person{}, "JSONRPC 1.0", "GRPC 1.0"), o, func(f conformance.Finding) { all = append(all, f) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if got := of(all, conformance.CheckStream); !slices.Equal(got, []conformance.Verdict{ok, skipped}) {
		t.Errorf("stream: %v", got)
	}
	if got := of(all, conformance.CheckMemory); !slices.Equal(got, []conformance.Verdict{skipped, skipped}) {
		t.Errorf("memory: %v", got)
	}
	for _, f := range all {
		if f.Verdict == failed {
			t.Errorf("%+v", f)
		}
	}
}

func TestWhatIsNoURLIsRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "gopher://x", "http://", "http://user:pass@h/", "http://[::1"} {
		err := conformance.Test(t.Context(), url, conformance.Options{}, func(f conformance.Finding) { t.Errorf("%q: %+v", url, f) })
		if !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%q: %v", url, err)
		}
	}
}
