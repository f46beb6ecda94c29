package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"agentmesh/gen/openapi"
	"agentmesh/mesh"
	"agentmesh/mesh/bind/rest"
)

// documented is what the tests read of the document themselves.
type documented struct {
	Paths map[string]map[string]struct {
		OperationID string
		Responses   map[string]struct {
			Ref     string `json:"$ref"`
			Content map[string]any
		}
	}
	Components struct {
		Schemas  map[string]struct{ Properties map[string]any }
		Examples map[string]struct{ Value json.RawMessage }
	}
}

func theDocument(t *testing.T) (doc documented) {
	t.Helper()
	if err := json.Unmarshal(openapi.JSON, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// The validator takes "/tasks/{id}:cancel" for "/tasks/{id}", where the parameter is all of
// a segment. So that it tells one from the other, exchanges are validated with a slash there.
var (
	verbInTemplate = regexp.MustCompile(`("/[^"]*\}):(\w+": \{)`)
	verbInPath     = regexp.MustCompile(`:(cancel|subscribe|share|run|invite|resetBreaker)$`)
)

// exchanges returns a validator of what is said by the document.
func exchanges(t *testing.T) validator.Validator {
	t.Helper()
	return validatorOf(t, verbInTemplate.ReplaceAll(openapi.JSON, []byte("$1/:$2")))
}

func validatorOf(t *testing.T, document []byte) validator.Validator {
	t.Helper()
	doc, err := libopenapi.NewDocument(document)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	t.Cleanup(v.Release)
	return v
}

// finding N9: the document is one of OpenAPI 3.1.
func TestTheDocumentIsOpenAPI(t *testing.T) {
	if ok, errs := validatorOf(t, openapi.JSON).ValidateDocument(); !ok {
		for _, err := range errs {
			t.Errorf("%s: %s: %v", err.Message, err.Reason, err.SchemaValidationErrors)
		}
	}
}

// fixed are the routes that no proto describes.
var fixed = []string{
	"GET /.well-known/agent-card.json", "GET /.well-known/jwks.json", "GET /.well-known/oauth-protected-resource",
	"GET /.well-known/oauth-protected-resource/mcp", "GET /agents/{agent}/.well-known/agent-card.json",
	"GET /healthz", "GET /openapi.json", "POST /", "POST /mcp",
}

// bound returns the bindings of all methods, and those of them that stream.
func bound() (all, streams []string) {
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
				if rule == nil || f.Package() != "lf.a2a.v1" && f.Package() != "mesh.v1" {
					continue
				}
				for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
					of := bindings(r, m.IsStreamingServer() && f.Package() == "lf.a2a.v1")
					all = append(all, of...)
					if m.IsStreamingServer() {
						streams = append(streams, of...)
					}
				}
			}
		}
		return true
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
	want = append(want, fixed...)
	doc := theDocument(t)
	var got, told []string
	for path, item := range doc.Paths {
		for verb, op := range item {
			route := strings.ToUpper(verb) + " " + path
			got = append(got, route)
			ok := op.Responses["200"].Content
			if ok["text/event-stream"] != nil && ok["application/json"] == nil {
				told = append(told, route)
			}
			for _, code := range []string{"400", "401", "403", "404", "409", "429", "503", "default"} {
				if r := op.Responses[code]; r.Ref == "" && (path != "/healthz" || code != "503") {
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
	parameter := regexp.MustCompile(`\{[^}]*\}`)
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
	v := exchanges(t)
	for _, tt := range routes {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			s := *s
			s.t = t
			checkExchange(t, v, s.do(tt.method, tt.path, tt.body), tt.body)
		})
	}
	for _, tt := range []struct{ method, path, body string }{
		{"GET", "/tasks/none", ""}, {"GET", "/openapi.json", ""}, {"GET", "/healthz", ""},
	} {
		checkExchange(t, v, s.do(tt.method, tt.path, tt.body), tt.body)
	}
}

// checkExchange validates an answer, and the request that it is for if that was good.
func checkExchange(t *testing.T, v validator.Validator, resp *http.Response, sent string) {
	t.Helper()
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return // its data are no answer to a tool
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.Request.URL.Path = verbInPath.ReplaceAllString(resp.Request.URL.Path, "/:$1")
	resp.Request.Body = io.NopCloser(strings.NewReader(sent))
	if ok, errs := v.ValidateHttpResponse(resp.Request, resp); !ok {
		for _, err := range errs {
			t.Errorf("%s %s: %s: %s %v\n%s", resp.Request.Method, resp.Request.URL, err.Message, err.Reason, err.SchemaValidationErrors, body)
		}
	}
}

// finding N9: generated clients refuse an answer without what a schema requires, and
// answers leave out what is empty. Only what this package writes itself is required.
func TestTheDocumentRequiresNothingOfMessages(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Title                         string
				Required, OneOf, AllOf, AnyOf []any
			}
		}
	}
	if err := json.Unmarshal(openapi.JSON, &doc); err != nil {
		t.Fatal(err)
	}
	for name, s := range doc.Components.Schemas {
		if s.Title == "" {
			t.Errorf("%s has no title", name)
		}
		if strings.Contains(name, ".v1.") && len(s.Required)+len(s.OneOf)+len(s.AllOf)+len(s.AnyOf) > 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if doc.Components.Schemas["lf.a2a.v1.AgentInterface"].Title != "AgentInterface" {
		t.Error("there is no AgentInterface")
	}
}

// The examples are requests that the document and the gateway take.
func TestTheDocumentsExamplesAreTaken(t *testing.T) {
	s := start(t, rest.Options{})
	v := exchanges(t)
	doc := theDocument(t)
	used := 0
	for path, item := range doc.Paths {
		for verb, op := range item {
			example := doc.Components.Examples[op.OperationID].Value
			if example == nil {
				continue
			}
			used++
			path := strings.NewReplacer("{thread_id}", threadID, "{name}", "mail.send").Replace(path)
			resp := s.do(strings.ToUpper(verb), path, string(example))
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %d, want 200: %v", op.OperationID, resp.StatusCode, s.read(resp))
				continue
			}
			checkExchange(t, v, resp, string(example))
			req, err := http.NewRequestWithContext(t.Context(), strings.ToUpper(verb), s.url+verbInPath.ReplaceAllString(path, "/:$1"), bytes.NewReader(example))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if ok, errs := v.ValidateHttpRequest(req); !ok {
				t.Errorf("%s: %v", op.OperationID, errs)
			}
		}
	}
	if used != len(doc.Components.Examples) {
		t.Errorf("%d of %d examples are of an operation", used, len(doc.Components.Examples))
	}
}
