package rest

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

const (
	headerExtensions = "A2A-Extensions"
	headerLastEvent  = "Last-Event-ID"
)

// incoming returns the metadata of the call that the request makes. Errors are
// for the client.
func incoming(r *http.Request, pathParams map[string]string) (metadata.MD, *status.Status) {
	md := metadata.MD{}
	for _, key := range rpc.Keys() {
		if key == rpc.KeyAfterSeq || key == rpc.KeyWantSeq {
			continue // one has its own rules, below; the other is not for clients
		}
		values := slices.DeleteFunc(slices.Clone(r.Header.Values(key)), func(v string) bool { return v == "" })
		if len(values) > 1 && key != rpc.KeyExtensions {
			return nil, invalid(key, "the header is given more than once; send it once")
		}
		for _, v := range values {
			if !printable(v) {
				return nil, invalid(key, "the header has characters other than printable ASCII; remove them")
			}
			md.Append(key, v)
		}
	}
	if v := r.URL.Query().Get("A2A-Version"); v != "" && len(md[rpc.KeyVersion]) == 0 {
		if !printable(v) {
			return nil, invalid("A2A-Version", "the parameter has characters other than printable ASCII; remove them")
		}
		md.Set(rpc.KeyVersion, v)
	}
	cursor, bad := cursorOf(r)
	if bad != nil {
		return nil, bad
	}
	if cursor != "" {
		md.Set(rpc.KeyAfterSeq, cursor)
	}
	if id := pathParams["thread_id"]; id != "" && len(md[rpc.KeyThread]) == 0 && printable(id) {
		md.Set(rpc.KeyThread, id)
	}
	return md, nil
}

// cursorOf returns where the client wants to go on: after-seq, or the
// Last-Event-ID that browsers send by themselves, or "".
func cursorOf(r *http.Request) (string, *status.Status) {
	var cursor string
	for _, name := range [...]string{rpc.KeyAfterSeq, headerLastEvent} {
		v := r.Header.Get(name)
		if v == "" {
			continue
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return "", invalid(name, "must be the id of an event, a number such as 42, and is %q", clip(v))
		}
		v = strconv.FormatInt(n, 10)
		if cursor != "" && cursor != v {
			return "", invalid(headerLastEvent, "says %s and after-seq says %s; send one of them", v, cursor)
		}
		cursor = v
	}
	return cursor, nil
}

// extended reports whether the client activated our extension itself.
func extended(md metadata.MD) bool {
	for _, list := range md[rpc.KeyExtensions] {
		for uri := range strings.SplitSeq(list, ",") {
			if strings.TrimSpace(uri) == mesh.ExtensionURI {
				return true
			}
		}
	}
	return false
}

// printable reports whether gRPC can carry v as text.
func printable(v string) bool {
	for i := range len(v) {
		if v[i] < 0x20 || v[i] > 0x7e {
			return false
		}
	}
	return true
}

// mediaType returns the type of JSON that the client speaks: the one of A2A
// when its Content-Type or Accept names it.
func mediaType(r *http.Request) string {
	for _, line := range append(r.Header.Values("Accept"), r.Header.Values("Content-Type")...) {
		for one := range strings.SplitSeq(line, ",") {
			if t, _, err := mime.ParseMediaType(one); err == nil && t == mimeA2A {
				return mimeA2A
			}
		}
	}
	return mimeJSON
}

// isJSON reports whether the request says that its body is JSON. A request
// that says nothing does not: a web site can make browsers send that unasked.
func isJSON(r *http.Request) bool {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && (t == mimeJSON || t == mimeA2A)
}

type metadataKey struct{}

// admitted returns the metadata that the request was admitted with.
func admitted(ctx context.Context) metadata.MD {
	md, _ := ctx.Value(metadataKey{}).(metadata.MD)
	return md
}

// clip shortens what a client sent for a message to the client.
func clip(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}
