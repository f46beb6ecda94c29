package rest

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ourPaths is what the paths of the mesh's own services begin with. A2A leaves it to the server
// what it does not know (A2A v1.0 §5.7), and its clients send more than there is.
const ourPaths = "/mesh/v1/"

// queries has what the query of each of our routes may set, by method and path.
type queries map[string]protoreflect.MessageDescriptor

// queriesOf finds the routes whose requests have no body but the query.
func queriesOf() queries {
	q := queries{}
	for d := range served() {
		rule, ok := proto.GetExtension(d.Options(), annotations.E_Http).(*annotations.HttpRule)
		if !ok || rule == nil {
			continue
		}
		for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
			for verb, path := range map[string]string{http.MethodGet: r.GetGet(), http.MethodDelete: r.GetDelete(), http.MethodPost: r.GetPost()} {
				if strings.HasPrefix(path, ourPaths) && r.GetBody() == "" {
					q[verb+" "+path] = d.Input()
				}
			}
		}
	}
	return q
}

// inKey is the key of a map in a parameter, as grpc-gateway reads it.
var inKey = regexp.MustCompile(`\[.*\]$`)

// unknown says which parameter the request has that its route does not, or nil. A filter that is
// misspelled would leave out nothing, and who sent it would take all for what they asked for.
func (q queries) unknown(r *http.Request) *status.Status {
	pattern, _ := runtime.HTTPPattern(r.Context())
	d := q[r.Method+" "+strings.ReplaceAll(pattern.String(), "=*}", "}")]
	if d == nil || r.URL.RawQuery == "" {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.URL.Query())) {
		if !has(d, strings.Split(inKey.ReplaceAllString(name, ""), ".")) && name != "A2A-Version" {
			var there []string
			for i := range d.Fields().Len() {
				there = append(there, string(d.Fields().Get(i).Name()))
			}
			return invalid(clip(name), "there is no such parameter; the request may have %s", strings.Join(there, ", "))
		}
	}
	return nil
}

// withoutEmpty is the query without the parameters that have no value, as of a form of which not
// all was filled in: each field is what it is by default then, where grpc-gateway would look for
// a number. What is no query stays, for grpc-gateway to refuse.
func withoutEmpty(query string) string {
	if query == "" {
		return query
	}
	return strings.Join(slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool {
		_, value, _ := strings.Cut(pair, "=")
		return value == ""
	}), "&")
}

// has reports whether the message has the field, by the names of the proto or of JSON.
func has(d protoreflect.MessageDescriptor, path []string) bool {
	f := d.Fields().ByTextName(path[0])
	if f == nil {
		f = d.Fields().ByJSONName(path[0])
	}
	if f == nil || len(path) == 1 {
		return f != nil
	}
	return f.Message() != nil && f.Cardinality() != protoreflect.Repeated && has(f.Message(), path[1:])
}
