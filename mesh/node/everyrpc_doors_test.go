package node_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// A way is one by which a method is called: over gRPC, by a route of REST, or as a method
// of JSON-RPC or a tool of MCP.
type way struct {
	name string
	ask  ask
	// call returns the code by its name, and all that is told.
	call func(t *testing.T, x things, headers []string) told
}

// told is how a call ended, and for streams with what they began.
type told struct{ code, text string }

// ways has every way to call what the mesh serves, of the services' own descriptions.
func ways(t *testing.T, m *testMesh) (all []way) {
	t.Helper()
	conn := m.raw(t)
	seen := map[string]bool{}
	for _, name := range services(t, conn) {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Fatal(err)
		}
		methods := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			method := "/" + name + "/" + string(methods.Get(i).Name())
			a, ok := asks[method]
			if seen[method] = true; !ok {
				t.Errorf("%s has no entry in asks: say what a caller of it sends, and which agents may call it", method)
				continue
			}
			a.method = method
			all = append(append(all, overRaw(conn, method, methods.Get(i), a)), m.routes(name, methods.Get(i), a)...)
		}
	}
	for method := range asks {
		if !seen[method] {
			t.Errorf("%s is in asks, and nothing that is served", method)
		}
	}
	for method, params := range legacyParams {
		all = append(all, way{"JSON-RPC 0.3 " + method, ask{method: method}, func(t *testing.T, x things, headers []string) told {
			params := strings.NewReplacer("TASK", x.task, "THREAD", x.thread).Replace(params)
			return m.ask(t, http.MethodPost, "/", rpcBody(method, params), headers, rpc03Error)
		}})
	}
	for method, params := range map[string]string{"tools/call": `{"name": "SKILL", "arguments": {}}`, "tools/list": "{}"} {
		a := ask{agents: always} // by the list of skills, of which every request is
		if method == "tools/call" {
			a.own = codes.Unknown // the tool fails, which has no code
		}
		all = append(all, way{"MCP " + method, a, func(t *testing.T, x things, headers []string) told {
			params := strings.ReplaceAll(params, "SKILL", strings.ReplaceAll(x.skill, ".", "-"))
			return m.ask(t, http.MethodPost, "/mcp", rpcBody(method, params), headers, mcpError)
		}})
	}
	return all
}

// overRaw calls a method over gRPC, whatever its kind, at any node.
func overRaw(conn grpc.ClientConnInterface, method string, d protoreflect.MethodDescriptor, a ask) way {
	return way{"gRPC " + method, a, func(t *testing.T, x things, headers []string) told {
		ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(t.Context(), metadata.Pairs(headers...)), 5*time.Second)
		defer cancel()
		resp := dynamicpb.NewMessage(d.Output())
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: d.IsStreamingClient()}, method)
		if err == nil {
			if err = stream.SendMsg(a.request(x)); err == nil || err == io.EOF {
				_ = stream.CloseSend()
				err = stream.RecvMsg(resp)
			}
		}
		if err == nil {
			return told{"OK", protojson.Format(resp)}
		}
		return told{code.Code(status.Code(err)).String(), describe(err)}
	}}
}

// routes calls the method by JSON-RPC, if it is one of A2A v1.0, and by all routes that its
// description has, of the mesh and of an agent that is addressed.
func (m *testMesh) routes(service string, d protoreflect.MethodDescriptor, a ask) (all []way) {
	var prefixes = []string{""}
	if service == a2aServiceName {
		prefixes = append(prefixes, "/agents/main")
		for _, prefix := range prefixes {
			method := string(d.Name())
			all = append(all, way{"JSON-RPC " + prefix + " " + method, a, func(t *testing.T, x things, headers []string) told {
				params, err := protojson.Marshal(a.request(x))
				if err != nil {
					t.Fatal(err)
				}
				return m.ask(t, http.MethodPost, prefix+"/", rpcBody(method, string(params)), append(headers, "A2A-Version", "1.0"), rpcCode)
			}})
		}
	}
	rule, _ := proto.GetExtension(d.Options(), annotations.E_Http).(*annotations.HttpRule)
	if rule == nil {
		return all
	}
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		for _, prefix := range prefixes {
			verb, path := http.MethodGet, r.GetGet()
			for v, p := range map[string]string{http.MethodPost: r.GetPost(), http.MethodPut: r.GetPut(), http.MethodDelete: r.GetDelete()} {
				if p != "" {
					verb, path = v, p
				}
			}
			path = prefix + path
			all = append(all, way{"REST " + verb + " " + path, a, func(t *testing.T, x things, headers []string) told {
				at, body := transcode(t, path, r.GetBody(), a.request(x))
				if service != a2aLegacyName {
					headers = append(headers, "A2A-Version", "1.0")
				}
				return m.ask(t, verb, at, body, headers, restError)
			}})
		}
	}
	return all
}

const (
	a2aServiceName = "lf.a2a.v1.A2AService"
	a2aLegacyName  = "a2a.v1.A2AService"
)

var pathField = regexp.MustCompile(`\{(\w+)(=[^}]*)?\}`)

// transcode makes path, query and body of a request (google.api.http).
func transcode(t *testing.T, path, in string, req proto.Message) (at, body string) {
	t.Helper()
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(req)
	fields := map[string]any{}
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	at = pathField.ReplaceAllStringFunc(path, func(f string) string {
		parts := pathField.FindStringSubmatch(f)
		v, ok := fields[parts[1]]
		if delete(fields, parts[1]); !ok {
			v = "a" // a tenant
		}
		if parts[2] != "" { // of several segments
			return fmt.Sprint(v)
		}
		return url.PathEscape(fmt.Sprint(v))
	})
	if in == "*" {
		whole, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return at, string(whole)
	}
	if in != "" {
		part, err := json.Marshal(fields[in])
		if err != nil {
			t.Fatal(err)
		}
		delete(fields, in)
		body = string(part)
	}
	query := url.Values{}
	for name, v := range fields {
		query.Set(name, fmt.Sprint(v))
	}
	return at + "?" + query.Encode(), body
}

// ask makes a request and reads its answer, of a stream the first event.
func (m *testMesh) ask(t *testing.T, verb, path, body string, headers []string, errorOf func([]byte) answered) told {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, verb, "http://"+m.web()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return told{"none", err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := event(resp)
	if err != nil {
		return told{"none", err.Error()}
	}
	got := errorOf(answer).code
	if got == "" && resp.StatusCode == http.StatusOK {
		got = "OK"
	}
	return told{got, fmt.Sprintf("%d %s", resp.StatusCode, answer)}
}

// event returns the body of the answer, or of a stream what its first event has.
func event(resp *http.Response) ([]byte, error) {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return io.ReadAll(resp.Body)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok && len(data) > 0 {
			return data, nil
		}
	}
	return nil, lines.Err()
}

// rpcCode is the code of an error of JSON-RPC.
func rpcCode(body []byte) answered {
	var e struct{ Error *struct{ Code int } }
	if err := json.Unmarshal(body, &e); err != nil {
		return answered{code: err.Error()}
	}
	if e.Error == nil {
		return answered{}
	}
	if c, ok := rpcCodes[e.Error.Code]; ok {
		return answered{code: code.Code(c).String()}
	}
	return rpcError(body)
}

// mcpError is the code of an answer over MCP: that of HTTP, or that a tool failed.
func mcpError(body []byte) answered {
	var e struct {
		Error  json.RawMessage
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return answered{code: "not JSON"}
	}
	if e.Error != nil || e.Result.IsError {
		got := restError(body)
		if got.code == "" || strings.HasPrefix(got.code, "json: ") {
			got.code = "UNKNOWN"
		}
		return got
	}
	return answered{}
}
