package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/skill"

	"github.com/google/go-cmp/cmp"
)

// trips are the limits in the log.
func trips(log []*meshv1.Event) []*meshv1.LimitTripped {
	var all []*meshv1.LimitTripped
	for _, e := range log {
		if l := e.GetLimitTripped(); l != nil {
			all = append(all, l)
		}
	}
	return all
}

// What mesh.yaml says of a model and its fallbacks, and of limits, holds in a
// mesh that runs.
func TestSettingsOfModelsAndLimitsHold(t *testing.T) {
	t.Parallel()
	var tasks atomic.Int32
	answer := func(req *modelRequest) modelReply {
		if said, _ := req.since(); strings.HasPrefix(said, "Letter ") {
			return modelReply{text: "Read.", usage: &modelUsage{Prompt: 1000, Completion: 100}}
		}
		return modelReply{calls: []modelCall{useSkill("tasks.create", map[string]any{"title": fmt.Sprintf("Task %d", tasks.Add(1))})}}
	}
	backup := startScripted(t, answer)
	ours := startScripted(t, func(req *modelRequest) modelReply {
		if said, _ := req.since(); strings.HasPrefix(said, "Letter 7") {
			return modelReply{away: true}
		}
		return answer(req)
	})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), fmt.Sprintf(`tool_mode: single_loop
limits: {thread_calls: 13, user_calls: 18, window: 7m}
model:
  url: %s/v1
  name: ours
  context: 20000
  retries: -1
  fallbacks: [{url: %s/v1, name: gpt-4-backup}]
  prices: {ours: {input: 1, output: 10}, gpt-4: {input: 5, output: 20}}
`, ours.URL, backup.URL))
	m := up(t, dir)
	m.runAPI("tasks.create", map[string]any{"title": "Call Ann"})
	m.runAPI("memory.save", map[string]any{"content": "Likes a letter better than mail", "category": "preference"})
	t.Run("model", func(t *testing.T) { checkModelSettings(t, m, ours, backup) })
	t.Run("limits", func(t *testing.T) { checkLimitSettings(t, m) })
}

// checkModelSettings has a conversation that is larger than the windows of both
// models. Each is sent what fits its own, the second one answers when the first
// is away, and each reply has its price in the log.
func checkModelSettings(t *testing.T, m *realMesh, ours, backup *scriptedModel) {
	id := mesh.NewThreadID()
	for n := 1; n <= 7; n++ { // of 3000 tokens each
		h := speaker(speakGRPC).complete(t, m, id, fmt.Sprintf("Letter %d:%s", n, strings.Repeat(" word", 3000)))
		if h.text != "Read." {
			t.Fatalf("letter %d is answered %q", n, h.text)
		}
	}
	first, second := ours.asked(), backup.asked()
	checkSize(t, "main, alone", first[0])
	checkKnown(t, first[0], "Call Ann", "Likes a letter better than mail")
	if len(first) != 7 || len(second) != 1 {
		t.Fatalf("asked %d and %d times, want 7 and 1", len(first), len(second))
	}
	for name, tt := range map[string]struct {
		req        *modelRequest
		model      string
		with, less []string
	}{
		"model.context, and not the window of a model that is not known": {first[6], "ours", []string{"Letter 7:", "Letter 5:"}, []string{"Letter 1:"}},
		"the window that is known of the other one":                      {second[0], "gpt-4-backup", []string{"Letter 7:"}, []string{"Letter 6:", "Letter 1:"}},
	} {
		text := tt.req.text()
		for _, part := range tt.with {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %s is missing", name, part)
			}
		}
		for _, part := range tt.less {
			if strings.Contains(text, part) {
				t.Errorf("%s: %s is sent", name, part)
			}
		}
		if tt.req.Model != tt.model {
			t.Errorf("%s: asked for %q", name, tt.req.Model)
		}
	}
	costs := map[string]float64{}
	for _, e := range m.log(id) {
		if r := e.GetModelReplied(); r != nil {
			costs[r.GetModel()] += r.GetUsage().GetCost()
		}
	}
	for name, want := range map[string]float64{"ours": 6 * (1000*1 + 100*10) / 1e6, "gpt-4-backup": (1000*5 + 100*20) / 1e6} {
		if math.Abs(costs[name]-want) > 1e-9 {
			t.Errorf("%s cost %v, want %v", name, costs[name], want)
		}
	}
}

// checkLimitSettings meets one limit after the other, with a model that never
// ends to call skills: 10 calls for one message by default, which come before
// the end of its steps (S3-040), those of the conversation, which has a message
// of its own (S3-043), and those of the user in all conversations.
func checkLimitSettings(t *testing.T, m *realMesh) {
	id, other := mesh.NewThreadID(), mesh.NewThreadID()
	for i, tt := range []struct {
		thread, text string
		limit        string
		used         int64
		report       []string
	}{
		{id, "Note tasks without end", limit.TurnSkillCalls, 10, []string{"I have used the 10 skill calls that I may make for one message.", "Would you like me to continue?"}},
		{id, "yes", limit.ThreadSkillCalls, 13, []string{"This conversation has used all of the 13 skill calls", "There is room for more at ", `Answer "yes" when it is time.`}},
		{other, "Note tasks without end", limit.UserSkillCalls, 18, []string{"You have used all of the 18 skill calls", "There is room for more at "}},
	} {
		h := speakGRPC(t, m, tt.thread, tt.text)
		if !mesh.Interrupted(h.state) || len(h.status) == 0 {
			t.Fatalf("%s: ended %v: %s", tt.limit, h.state, h.text)
		}
		report := h.status[len(h.status)-1]
		for _, part := range tt.report {
			if !strings.Contains(report, part) {
				t.Errorf("%s: %q is not in the report:\n%s", tt.limit, part, report)
			}
		}
		log := m.log(tt.thread)
		all := trips(log)
		last := all[len(all)-1]
		if last.GetLimit() != tt.limit || last.GetUsed() != tt.used || last.GetMost() != tt.used {
			t.Errorf("the log has %v, want %s", all, tt.limit)
		}
		if i == 1 {
			checkWindow(t, log, last)
		}
	}
	if n := len(madeCalls(m.log(id))); n != 13 {
		t.Errorf("%d calls in the conversation", n)
	}
	if n := len(madeCalls(m.log(other))); n != 3 {
		t.Errorf("%d calls in the other one", n)
	}
}

// checkWindow checks that there is room again 7 minutes after the first call.
func checkWindow(t *testing.T, log []*meshv1.Event, last *meshv1.LimitTripped) {
	t.Helper()
	i := slices.IndexFunc(log, func(e *meshv1.Event) bool { return e.GetSkillCalled() != nil })
	if last.GetFree() == nil {
		t.Fatalf("no time in %v", last)
	}
	at := last.GetFree().AsTime()
	if wait := at.Sub(log[i].GetTime().AsTime()); wait < 7*time.Minute || wait > 7*time.Minute+2*time.Second {
		t.Errorf("%v is %v after the first call", last, wait)
	}
}

// A hook is a webhook that keeps what it is told.
type hook struct {
	*httptest.Server
	mu   sync.Mutex
	told []map[string]any
}

func startHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var note map[string]any
		if err := json.NewDecoder(r.Body).Decode(&note); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.told = append(h.told, note)
	}))
	t.Cleanup(h.Close)
	return h
}

// printing is a model that prints three times, one after the other, whichever
// part of the mesh it is.
func printing(t *testing.T) *scriptedModel {
	return startScripted(t, func(req *modelRequest) modelReply {
		_, after := req.since()
		step := 0
		for _, msg := range after {
			if msg.Role == "assistant" {
				step++
			}
		}
		call := func(name string, args map[string]any) modelReply { return modelReply{calls: []modelCall{{name, args}}} }
		find := call("get_skill", map[string]any{"query": "print"})
		press := useSkill("press.print", map[string]any{"word": "pier"})
		var script []modelReply
		switch {
		case req.offers("consult_agent"):
			script = []modelReply{call("consult_agent", map[string]any{"agent": "orchestrator", "task": "print pier"})}
		case req.offers("dispatch_agent"):
			script = []modelReply{find, call("dispatch_agent", map[string]any{"agent_id": "p", "mission": "print pier", "skills": []string{"press.print"}}),
				call("get_agent_results", map[string]any{})}
		case req.offers("use_skill"):
			script = []modelReply{find, {calls: []modelCall{press}}, {calls: []modelCall{press}}, {calls: []modelCall{press}}}
		default:
			block := modelReply{text: "```cmd\npress.print --word pier\n```\n"}
			script = []modelReply{block, block, block}
		}
		if step < len(script) {
			return script[step]
		}
		return modelReply{text: "It is not printed."}
	})
}

// A skill that hangs is ended by limits.timeout, and who wants to know of calls is
// told of that one once, and not of looking for skills (S3-147); an agent that
// others dispatch has the calls of limits.agent_calls.
func TestSettingsOfCallsAndNotificationsHold(t *testing.T) {
	const late = "it did not finish in time"
	for mode, calls := range map[string]int{"multi_agent": 2, "single_loop": 3} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			paper, tell, model := startPress(t), startHook(t), printing(t)
			dir := withPress(t, paper)
			file := filepath.Join(dir, "mesh.yaml")
			writeFile(t, file, readFile(t, file)+"tool_mode: "+mode+"\nlimits: {timeout: 1s, agent_calls: 2}\nnotify: [{webhook: \""+tell.URL+"\", on: always}]\n")
			m := upWith(t, dir, model.env())
			id := mesh.NewThreadID()
			if h := speaker(speakGRPC).complete(t, m, id, "print pier"); !strings.Contains(h.text, "It is not printed.") {
				t.Errorf("the user hears %q", h.text)
			}
			log := m.log(id)
			if printed, _ := paper.all(); len(printed) != calls || len(madeCalls(log)) != calls {
				t.Errorf("%d requests for the calls %q, want %d", len(printed), madeCalls(log), calls)
			}
			for _, e := range log {
				r := e.GetSkillReturned()
				if took := r.GetDuration().AsDuration(); r != nil && (!strings.Contains(r.GetContent(), late) || took < time.Second/2 || took > skill.DefaultTimeout*2/3) {
					t.Errorf("a call ended after %v with %q", took, r.GetContent())
				}
			}
			for _, r := range model.asked() {
				checkSize(t, strings.SplitN(string(r.Messages[0].Content), ".", 2)[0], r)
			}
			var met []string
			for _, l := range trips(log) {
				met = append(met, fmt.Sprintf("%s %d", l.GetLimit(), l.GetMost()))
			}
			if want := map[string][]string{"multi_agent": {limit.AgentToolCalls + " 2"}}[mode]; !slices.Equal(met, want) {
				t.Errorf("met the limits %q, want %q", met, want)
			}

			m.signal(os.Interrupt) // and what is to be told is told
			if code := m.wait(); code != exitOK {
				t.Errorf("exit code %d: %s", code, m.stderr.String())
			}
			tell.mu.Lock()
			defer tell.mu.Unlock()
			if len(tell.told) != 1 {
				t.Fatalf("told %v, want one", tell.told)
			}
			got := map[string]any{}
			for _, key := range []string{"skill", "status", "thread", "tenant"} {
				got[key] = tell.told[0][key]
			}
			if d := cmp.Diff(map[string]any{"skill": "press.print", "status": "error", "thread": id, "tenant": "default"}, got); d != "" {
				t.Errorf("told: -want +got\n%s", d)
			}
			if !strings.Contains(fmt.Sprint(tell.told[0]["content"]), late) {
				t.Errorf("told %v", tell.told[0])
			}
		})
	}
}

// S0-140: with a model for embeddings, what is remembered is found by what it means, by the
// skill and by what a model is given before it is asked; without an answer of its endpoint, by
// its words.
func TestMemoriesAreFoundByWhatTheyMean(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Model string
			Input []string
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.Model != "small" || r.Header.Get("Authorization") != "Bearer sk-small" {
			t.Errorf("asked for %+v: %v", req, err)
		}
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		type embedding struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		}
		var data []embedding
		for i, text := range req.Input {
			v := []float32{0, 0, 1}
			switch {
			case strings.Contains(text, "pasta"), strings.Contains(text, "dinner"):
				v = []float32{1, 0, 0.1}
			case strings.Contains(text, "train"):
				v = []float32{0, 1, 0.1}
			}
			data = append(data, embedding{i, v})
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"data": data}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	model := startScripted(t, func(*modelRequest) modelReply { return modelReply{text: "Noted."} })
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), fmt.Sprintf("tool_mode: single_loop\nembedding: {url: %s/v1, key: sk-small, name: small}\n", server.URL))
	m := upWith(t, dir, model.env())
	m.mesh("skills", "run", "memory.save", "--content", "The user loves pasta").succeeds(t)
	m.mesh("skills", "run", "memory.save", "--content", "The user takes the train").succeeds(t)
	if got := m.mesh("skills", "run", "memory.search", "--query", "dinner").succeeds(t); !strings.Contains(got, "pasta") || strings.Contains(got, "train") {
		t.Errorf("found %s", got)
	}
	m.mesh("send", "What about dinner").succeeds(t)
	asked := model.asked()
	if all := fmt.Sprint(asked[len(asked)-1].Messages); !strings.Contains(all, "loves pasta") {
		t.Errorf("the model was asked %s", all)
	}
	away.Store(true)
	if got := m.mesh("skills", "run", "memory.search", "--query", "trains and dinner").succeeds(t); !strings.Contains(got, "train") || strings.Contains(got, "pasta") {
		t.Errorf("by words it found %s", got)
	}
}
