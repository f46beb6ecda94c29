package mcp

import (
	"encoding/json"
	"mime"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
)

// Bounds of what is passed on of a result besides its text, in bytes. One part is
// an artifact of the thread's log, and all are in one answer.
const (
	maxPart  = mesh.MaxEvent - 16<<10
	maxParts = 2 << 20
)

// keyURI is where a part has the URI of the resource that it was.
const keyURI = "uri"

// partOf returns content as a part of A2A; nil for text, and for what is nothing.
func partOf(c sdk.Content) *a2apb.Part {
	switch c := c.(type) {
	case *sdk.ImageContent:
		return raw(c.Data, c.MIMEType, "image/png")
	case *sdk.AudioContent:
		return raw(c.Data, c.MIMEType, "audio/wav")
	case *sdk.ResourceLink:
		if uri := line(c.URI, 2000); uri != "" && uri == c.URI {
			return &a2apb.Part{Content: &a2apb.Part_Url{Url: uri}, MediaType: mediaType(c.MIMEType, ""), Filename: line(c.Name, 200)}
		}
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return nil
		}
		data, otherwise := c.Resource.Blob, "application/octet-stream"
		if len(data) == 0 {
			data, otherwise = []byte(clean(c.Resource.Text)), "text/plain"
		}
		p := raw(data, c.Resource.MIMEType, otherwise)
		if uri := line(c.Resource.URI, 2000); p != nil && uri != "" {
			p.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{keyURI: structpb.NewStringValue(uri)}}
		}
		return p
	}
	return nil
}

// raw returns bytes as a part; nil for none.
func raw(data []byte, kind, otherwise string) *a2apb.Part {
	if len(data) == 0 {
		return nil
	}
	return &a2apb.Part{Content: &a2apb.Part_Raw{Raw: data}, MediaType: mediaType(kind, otherwise)}
}

// mediaType returns the type if it is one, or else another.
func mediaType(kind, otherwise string) string {
	if _, _, err := mime.ParseMediaType(kind); err != nil || len(kind) > 200 {
		return otherwise
	}
	return kind
}

// contentFrom returns a part as content; nil for what has none, as text, which is
// told elsewhere.
func contentFrom(p *a2apb.Part) sdk.Content {
	if url := p.GetUrl(); url != "" {
		name := p.GetFilename()
		if name == "" {
			name = url
		}
		return &sdk.ResourceLink{URI: url, Name: name, MIMEType: p.GetMediaType()}
	}
	data, kind := p.GetRaw(), p.GetMediaType()
	if len(data) == 0 {
		return nil
	}
	uri := p.GetMetadata().GetFields()[keyURI].GetStringValue()
	switch top, _, _ := strings.Cut(kind, "/"); {
	case uri == "" && top == "image":
		return &sdk.ImageContent{Data: data, MIMEType: kind}
	case uri == "" && top == "audio":
		return &sdk.AudioContent{Data: data, MIMEType: kind}
	case uri == "":
		uri = "file:///" + strings.ReplaceAll(strings.TrimLeft(line(p.GetFilename(), 200), "/"), " ", "%20")
		fallthrough
	default:
		r := &sdk.ResourceContents{URI: uri, MIMEType: kind}
		if top == "text" {
			r.Text = strings.ToValidUTF8(string(data), "\ufffd")
		} else {
			r.Blob = data
		}
		return &sdk.EmbeddedResource{Resource: r}
	}
}

// An output is the promise of a tool about what it says for programs.
type output struct {
	schema json.RawMessage
	check  *jsonschema.Resolved
}

// outputOf reads the schema of what a tool says for programs; nil if there is none
// that a client could hold it to: one of an object, which points nowhere else.
func outputOf(given any) *output {
	schema, ok := given.(map[string]any)
	if !ok || schema["type"] != "object" {
		return nil
	}
	data, err := json.Marshal(cleanSchema(schema))
	if err != nil || len(data) > maxSchema {
		return nil
	}
	var s jsonschema.Schema
	if json.Unmarshal(data, &s) != nil {
		return nil
	}
	check, err := s.Resolve(nil)
	if err != nil {
		return nil
	}
	return &output{data, check}
}

// holds reports whether the content is as it was promised.
func (o *output) holds(structured any) bool {
	return o == nil || structured != nil && o.check.Validate(structured) == nil
}
