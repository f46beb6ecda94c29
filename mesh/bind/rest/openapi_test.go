package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"math"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"agentmesh/gen/openapi"
	"agentmesh/mesh"
	"agentmesh/mesh/bind/rest"
)

// documented is what the tests read of the document.
type documented struct {
	Paths      map[string]map[string]operation
	Components struct {
		Schemas   map[string]*jsonschema.Schema
		Examples  map[string]struct{ Value json.RawMessage }
		Responses map[string]response
	}
}

type operation struct {
	OperationID string
	RequestBody struct{ Content map[string]media }
	Responses   map[string]response
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]media
}

type media struct{ Schema *jsonschema.Schema }

// theDocument returns the document with its schemas where the validator looks for them.
// A member that they do not name is wrong in these tests, while clients bear one.
func theDocument(t *testing.T) (doc documented) {
	t.Helper()
	schemas := bytes.ReplaceAll(openapi.JSON, []byte(`"#/components/schemas/`), []byte(`"#/$defs/`))
	if err := json.Unmarshal(schemas, &doc); err != nil {
		t.Fatal(err)
	}
	closed := slices.Collect(maps.Values(doc.Components.Schemas))
	for _, item := range doc.Paths {
		for _, op := range item {
			closed = append(closed, op.RequestBody.Content["application/json"].Schema)
		}
	}
	for _, s := range closed {
		if s != nil && s.Properties != nil && s.AdditionalProperties == nil {
			s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
		}
	}
	return doc
}

// route returns what the document says of a request. No value of these tests has a colon,
// and of two routes that a path may be of, the one with fewer parameters is meant.
func (doc documented) route(t *testing.T, r *http.Request) operation {
	t.Helper()
	var found operation
	least := math.MaxInt
	for path, item := range doc.Paths {
		op, ok := item[strings.ToLower(r.Method)]
		pattern := "^" + parameter.ReplaceAllString(path, "[^/:]+") + "$"
		if n := strings.Count(path, "{"); ok && n < least && regexp.MustCompile(pattern).MatchString(r.URL.EscapedPath()) {
			found, least = op, n
		}
	}
	if found.OperationID == "" {
		t.Fatalf("the document has no %s %s", r.Method, r.URL.Path)
	}
	return found
}

// check validates what was said by its schema.
func (doc documented) check(t *testing.T, s *jsonschema.Schema, said []byte) {
	t.Helper()
	if s == nil {
		t.Fatalf("the document does not say what this is: %s", said)
	}
	resolved, err := (&jsonschema.Schema{Defs: doc.Components.Schemas, AllOf: []*jsonschema.Schema{s}}).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(said, &value); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if err := resolved.Validate(value); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// parameter is one of a path of the document.
var parameter = regexp.MustCompile(`\{[^}]*\}`)

// fixed are the routes that no proto describes.
var fixed = []string{
	"GET /.well-known/agent-card.json", "GET /.well-known/jwks.json", "GET /.well-known/oauth-protected-resource",
	"GET /.well-known/oauth-protected-resource/mcp", "GET /agents/{agent}/.well-known/agent-card.json",
	"GET /healthz", "GET /readyz", "GET /openapi.json", "POST /", "POST /mcp", "GET /mcp", "DELETE /mcp",
}

// each calls f with every method that has routes.
func each(f func(protoreflect.MethodDescriptor, *annotations.HttpRule)) {
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
				if rule != nil && (file.Package() == "lf.a2a.v1" || file.Package() == "mesh.v1") {
					f(m, rule)
				}
			}
		}
		return true
	})
}

// bound returns the bindings of all methods, and those of them that stream.
func bound() (all, streams []string) {
	each(func(m protoreflect.MethodDescriptor, rule *annotations.HttpRule) {
		for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
			of := bindings(r, m.IsStreamingServer() && m.Parent().ParentFile().Package() == "lf.a2a.v1")
			all = append(all, of...)
			if m.IsStreamingServer() {
				streams = append(streams, of...)
			}
		}
	})
	return all, streams
}

// template is what a path of a proto has beyond one of OpenAPI.
var template = regexp.MustCompile(`=[^}]*`)

func bindings(r *annotations.HttpRule, alsoPost bool) []string {
	for verb, path := range map[string]string{"GET ": r.GetGet(), "POST ": r.GetPost(), "PUT ": r.GetPut(), "DELETE ": r.GetDelete()} {
		if path = template.ReplaceAllString(path, ""); path == "" {
			continue
		}
		if verb == "GET " && alsoPost {
			return []string{verb + path, "POST " + path}
		}
		return []string{verb + path}
	}
	return nil
}

// finding N9: the document has every route and no other one; those that stream are
// streams, and every one tells its errors.
func TestTheDocumentHasEveryRouteAndNoOther(t *testing.T) {
	want, streams := bound()
	want, streams = append(want, fixed...), append(streams, "GET /mcp")
	doc := theDocument(t)
	var got, told []string
	for path, item := range doc.Paths {
		for verb, op := range item {
			route := strings.ToUpper(verb) + " " + path
			got = append(got, route)
			ok := op.Responses["200"].Content
			if ok["text/event-stream"].Schema != nil && ok["application/json"].Schema == nil {
				told = append(told, route)
			}
			for _, code := range []string{"400", "401", "403", "404", "409", "429", "503", "default"} {
				if r := op.Responses[code]; r.Ref == "" && (path != "/healthz" && path != "/readyz" || code != "503") {
					t.Errorf("%s does not say what its answer %s is", route, code)
				}
			}
		}
	}
	for _, list := range [][]string{want, got, streams, told} {
		slices.Sort(list)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the routes (-gateway +document):\n%s", diff)
	}
	if diff := cmp.Diff(streams, told); diff != "" {
		t.Errorf("the streams (-gateway +document):\n%s", diff)
	}
}

// A gateway answers under every path of the document, with the verbs that it says.
func TestTheDocumentsRoutesAreServed(t *testing.T) {
	s := start(t, rest.Options{
		Card:    func(context.Context, mesh.TenantID, string, bool) ([]byte, error) { return []byte(`{}`), nil },
		JSONRPC: http.NotFoundHandler(), Keys: []byte(`{"keys":[]}`), Resource: &rest.Resource{URL: "http://here"},
	})
	doc := theDocument(t)
	for path, item := range doc.Paths {
		if path == "/" || path == "/mcp" { // handlers of others, which say themselves what they allow
			continue
		}
		resp := s.do("PATCH", parameter.ReplaceAllString(path, "x"), "")
		s.errorOf(resp, 405, "UNIMPLEMENTED")
		var want []string
		for verb := range item {
			want = append(want, strings.ToUpper(verb))
		}
		if whole, _, ok := strings.Cut(path, "}:"); ok { // the verb may be of the parameter, too
			for verb := range doc.Paths[whole+"}"] {
				want = append(want, strings.ToUpper(verb))
			}
		}
		got := slices.DeleteFunc(strings.Split(resp.Header.Get("Allow"), ", "), func(verb string) bool { return verb == "HEAD" })
		slices.Sort(want)
		slices.Sort(got)
		if want = slices.Compact(want); !slices.Equal(got, want) {
			t.Errorf("%s allows %v, and the document says %v", path, got, want)
		}
	}
}

// finding N9: what goes over every route is what the document says.
func TestTheDocumentHoldsForEveryRoute(t *testing.T) {
	s := start(t, rest.Options{})
	doc := theDocument(t)
	for _, tt := range routes {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			s := *s
			s.t = t
			resp := s.do(tt.method, tt.path, tt.body)
			if resp.Header.Get("Content-Type") != "text/event-stream" {
				doc.checkExchange(t, resp, tt.body)
				return
			}
			event, err := json.Marshal(s.stream(resp).must().data)
			if err != nil {
				t.Fatal(err)
			}
			doc.check(t, &jsonschema.Schema{Ref: "#/$defs/" + answerOf(tt.rpc)}, event)
		})
	}
	for _, path := range []string{"/tasks/none", "/openapi.json", "/healthz"} {
		doc.checkExchange(t, s.do("GET", path, ""), "")
	}
}

// answerOf returns the name of the message that a method answers with.
func answerOf(method string) (name string) {
	each(func(m protoreflect.MethodDescriptor, _ *annotations.HttpRule) {
		if string(m.Name()) == method {
			name = string(m.Output().FullName())
		}
	})
	return name
}

// checkExchange validates an answer, and the request that it is for if that was good.
func (doc documented) checkExchange(t *testing.T, resp *http.Response, sent string) {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	op := doc.route(t, resp.Request)
	answer, ok := op.Responses[strconv.Itoa(resp.StatusCode)]
	if !ok {
		answer = op.Responses["default"]
	}
	if answer.Ref != "" {
		answer = doc.Components.Responses[path.Base(answer.Ref)]
	}
	doc.check(t, answer.Content[resp.Header.Get("Content-Type")].Schema, body)
	if want := op.RequestBody.Content["application/json"]; want.Schema != nil && sent != "" && resp.StatusCode == http.StatusOK {
		doc.check(t, want.Schema, []byte(sent))
	}
}

// finding N9: generated clients refuse an answer without what a schema requires, and
// answers leave out what is empty. Only what this package writes itself is required.
func TestTheDocumentRequiresNothingOfMessages(t *testing.T) {
	doc := theDocument(t)
	for name, s := range doc.Components.Schemas {
		if s.Title == "" {
			t.Errorf("%s has no title", name)
		}
		if strings.Contains(name, ".v1.") && len(s.Required)+len(s.OneOf)+len(s.AllOf)+len(s.AnyOf) > 0 {
			t.Errorf("%s: %v, %v, %v, %v", name, s.Required, s.OneOf, s.AllOf, s.AnyOf)
		}
	}
	if doc.Components.Schemas["lf.a2a.v1.AgentInterface"].Title != "AgentInterface" {
		t.Error("there is no AgentInterface")
	}
}

// The examples are requests that the document and the gateway take.
func TestTheDocumentsExamplesAreTaken(t *testing.T) {
	s := start(t, rest.Options{})
	doc := theDocument(t)
	used := 0
	for path, item := range doc.Paths {
		for verb, op := range item {
			example := string(doc.Components.Examples[op.OperationID].Value)
			if example == "" {
				continue
			}
			used++
			path := strings.NewReplacer("{thread_id}", threadID, "{name}", "mail.send").Replace(path)
			resp := s.do(strings.ToUpper(verb), path, example)
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %d, want 200: %v", op.OperationID, resp.StatusCode, s.read(resp))
				continue
			}
			doc.check(t, op.RequestBody.Content["application/json"].Schema, []byte(example))
		}
	}
	if used != len(doc.Components.Examples) {
		t.Errorf("%d of %d examples are of an operation", used, len(doc.Components.Examples))
	}
}
