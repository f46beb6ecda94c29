// Command openapi completes the OpenAPI document that is merged from what
// protoc-gen-openapiv3 makes of each proto: it reads one and writes the other. What it
// adds or takes away is what the gateway does otherwise than grpc-gateway's own: event
// streams, errors, one more verb, and answers without what is empty.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	_ "agentmesh/gen/mesh/v1"
)

// object is a JSON object.
type object = map[string]any

func main() {
	var doc object
	if err := json.NewDecoder(os.Stdin).Decode(&doc); err != nil {
		log.Fatalf("openapi: the merged document: %v", err)
	}
	if err := complete(doc); err != nil {
		log.Fatalf("openapi: %v", err)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	if err := out.Encode(doc); err != nil {
		log.Fatalf("openapi: %v", err)
	}
}

// complete makes the document say what the gateway does.
func complete(doc object) error {
	components := doc["components"].(object)
	open(doc["paths"])
	schemas := components["schemas"].(object)
	titles := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s := schemas[name].(object)
		open(s)
		if !strings.Contains(name, ".v1.") { // not of a proto, but our own
			continue
		}
		loosen(s)
		_, title, _ := strings.Cut(name, ".v1.")
		title = strings.ReplaceAll(title, ".", "")
		if other := titles[title]; other != "" {
			return fmt.Errorf("%s and %s would be the same type in generated clients; name one otherwise", other, name)
		}
		s["title"], titles[title] = title, name
	}
	streams := methods()
	examples := components["examples"].(object)
	for _, item := range doc["paths"].(object) {
		for _, op := range item.(object) {
			op := op.(object)
			addErrors(op)
			id := operation(op)
			if m := streams[id]; m != nil {
				addStream(op, m)
			}
			if body, ok := op["requestBody"].(object); ok && examples[id] != nil {
				content := body["content"].(object)["application/json"].(object)
				content["examples"] = object{"usual": object{"$ref": "#/components/examples/" + id}}
			}
		}
		addPost(item.(object), streams)
	}
	return nil
}

// methods returns the methods that stream, by the names that operations have.
func methods() map[string]protoreflect.MethodDescriptor {
	found := map[string]protoreflect.MethodDescriptor{}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				if m := s.Methods().Get(j); m.IsStreamingServer() {
					found[fmt.Sprintf("%s_%s", s.Name(), m.Name())] = m
				}
			}
		}
		return true
	})
	return found
}

// operation returns the name of the method that op is a binding of.
func operation(op object) string {
	parts := strings.SplitN(op["operationId"].(string), "_", 3)
	return strings.Join(parts[:min(2, len(parts))], "_")
}

// addErrors names the usual errors, where the operation does not say its own.
func addErrors(op object) {
	responses := op["responses"].(object)
	for _, code := range []string{"400", "401", "403", "404", "409", "429", "503", "default"} {
		if responses[code] == nil {
			responses[code] = object{"$ref": "#/components/responses/" + code}
		}
	}
}

// addStream makes the answer a stream of events. It is text for tools: none of them
// knows how to generate a reader of events from OpenAPI 3.1.
func addStream(op object, m protoreflect.MethodDescriptor) {
	op["responses"].(object)["200"] = object{
		"description": fmt.Sprintf("Server-sent events; the data of each is a %s in JSON.", m.Output().Name()),
		"content":     object{"text/event-stream": object{"schema": object{"type": "string"}}},
	}
	if m.Parent().Name() == "A2AService" || m.Input().Fields().ByName("after_seq") != nil {
		parameters, _ := op["parameters"].([]any)
		op["parameters"] = append(parameters, object{"$ref": "#/components/parameters/lastEventId"})
	}
}

// addPost adds the verb with which the text of A2A subscribes, where its proto says GET.
func addPost(item object, streams map[string]protoreflect.MethodDescriptor) {
	get, ok := item["get"].(object)
	if !ok || !strings.HasPrefix(get["operationId"].(string), "A2AService_") || streams[operation(get)] == nil {
		return
	}
	post := maps.Clone(get)
	post["operationId"] = get["operationId"].(string) + "_post"
	item["post"] = post
}

// loosen takes away what an answer need not satisfy: it leaves out what is empty, also
// what A2A requires, since agents of others forget it; and generators make types that
// nobody can use of the rule that one member of several is set, which becomes text.
func loosen(schema object) {
	delete(schema, "required")
	groups := []any{schema}
	if all, ok := schema["allOf"].([]any); ok {
		groups = all
		delete(schema, "allOf")
	}
	for _, g := range groups {
		var names []string
		one, _ := g.(object)["oneOf"].([]any)
		for _, o := range one {
			if member, ok := o.(object)["required"].([]any); ok {
				names = append(names, member[0].(string))
			}
		}
		if len(names) > 0 {
			text, _ := schema["description"].(string)
			schema["description"] = strings.TrimSpace(text + " At most one is set of: " + strings.Join(names, ", ") + ".")
		}
	}
	delete(schema, "oneOf")
}

// open says of each object without members of its own that it may have any.
func open(v any) {
	switch v := v.(type) {
	case object:
		if v["type"] == "object" && v["properties"] == nil && v["additionalProperties"] == nil && v["not"] == nil && v["required"] == nil {
			v["additionalProperties"] = true
		}
		for _, member := range v {
			open(member)
		}
	case []any:
		for _, item := range v {
			open(item)
		}
	}
}
