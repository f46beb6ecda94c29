package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

func (a *app) threadsImportCommand() *cobra.Command {
	var as string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Bring a thread here that was exported, from this mesh or another one",
		Long: `Bring a thread here that 'mesh threads export' printed, from this mesh or another one; a
FILE of - is the standard input. All of it is there at the end, or nothing.

It keeps its id, if the tenant has no thread of it, and its events their order, times and
authors: who owns it is the user of that name here. With --as it gets another id, and so
do its tasks and executions, wherever they are named. Tasks that were not over end as FAILED; nothing goes on
by itself. It takes the role tenant-admin.`,
		Example: `  mesh threads import thread.jsonl
  mesh threads import - --addr other:7420 < conversation.jsonl
  mesh threads import thread.jsonl --as 7b1f4a52-5a0e-4a5e-9d38-0b6a1c2f3d4e`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if as != "" {
				if as, err = parseThread("--as", as); err != nil {
					return err
				}
			}
			return exactly("FILE")(cmd, args)
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "the `id` that it gets, a UUID v4, instead of its own")
	a.structured(cmd, &asJSON, "print the thread as one line of JSON")
	cmd.RunE = a.stream(func(ctx context.Context, c *client, args []string) error {
		in := a.stdin
		if args[0] != "-" {
			f, err := os.Open(args[0])
			if err != nil {
				return mesh.InvalidField("mesh.import", "FILE", "cannot be read: %v", err)
			}
			defer func() { _ = f.Close() }() // only read
			in = f
		}
		resp, err := c.importThread(ctx, in, as)
		switch {
		case err != nil:
			return err
		case asJSON:
			return printAll(a, resp.GetThread())
		}
		a.printf("imported conversation %s of %s with %d events\n", resp.GetThread().GetThreadId(), oneLine(resp.GetThread().GetOwner()), resp.GetThread().GetSeq())
		if n := resp.GetEnded(); n > 0 {
			a.printf("%d tasks were not over, and are FAILED now\n", n)
		}
		return nil
	})
	return cmd
}

// importBytes is about how much is sent at a time.
const importBytes = 1 << 20

// importThread sends the thread in the file, under another id if as is not "". The mesh takes
// it when it has all of it: a file that turns out not to be whole is not taken.
func (c *client) importThread(ctx context.Context, file io.Reader, as string) (*meshv1.ImportThreadResponse, error) {
	ctx, cancel := context.WithCancel(ctx) // an end without all
	defer cancel()
	r := newThreadReader(file)
	head, err := r.head()
	if err != nil {
		return nil, err
	}
	rename := func(*meshv1.Event) {}
	if as != "" && as != head.Thread {
		rename = renamer(head.Thread, as)
	}
	id := orText(as, head.Thread)
	stream, err := c.threads.ImportThread(c.call(ctx, id))
	if err != nil {
		return nil, err
	}
	req, size := &meshv1.ImportThreadRequest{ThreadId: id, Total: head.Events}, 0
	for range head.Events {
		ev, err := r.event()
		if err != nil {
			return nil, err
		}
		rename(ev)
		if n := proto.Size(ev); size > 0 && size+n > importBytes {
			if err := send(stream, req); err != nil {
				return nil, err
			}
			req, size = &meshv1.ImportThreadRequest{}, 0
		}
		req.Events, size = append(req.Events, ev), size+proto.Size(ev)
	}
	if err := c.importBlobs(ctx, r, id); err != nil {
		return nil, err
	}
	if err := send(stream, req); err != nil {
		return nil, err
	}
	resp, err := stream.CloseAndRecv()
	return resp, atLine(err)
}

// send sends the request, and returns why the mesh does not take it.
func send(stream grpc.ClientStreamingClient[meshv1.ImportThreadRequest, meshv1.ImportThreadResponse], req *meshv1.ImportThreadRequest) error {
	err := stream.Send(req)
	if errors.Is(err, io.EOF) { // it says why
		_, err = stream.CloseAndRecv()
	}
	return atLine(err)
}

var eventField = regexp.MustCompile(`^events\[(\d+)\]\.?`)

// atLine names the line of the event that the mesh does not take.
func atLine(err error) error {
	m := eventField.FindStringSubmatch(mesh.FieldOf(err))
	if m == nil {
		return err
	}
	n, _ := strconv.Atoi(m[1]) // digits
	return badLine(n+2, strings.TrimPrefix(mesh.FieldOf(err), m[0]), strings.TrimSpace(strings.TrimPrefix(mesh.DetailOf(err), mesh.FieldOf(err))))
}

func badLine(line int, field, why string) error {
	return &mesh.Error{Code: mesh.Invalid, Op: "mesh.import", Field: field, Detail: fmt.Sprintf("line %d: %s; nothing was imported", line, strings.TrimSpace(field+" "+why))}
}

// maxLine bounds a line: an event, in JSON.
const maxLine = 8 << 20

// A threadReader reads the lines of a file, of a thread or a tenant.
type threadReader struct {
	lines *bufio.Scanner
	n     int // lines that were read
	sum   hash.Hash
}

func newThreadReader(r io.Reader) *threadReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	lines.Split(wholeLines)
	return &threadReader{lines: lines, sum: sha256.New()}
}

// wholeLines splits lines with what ends them.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

func (r *threadReader) bad(field, format string, args ...any) error {
	return badLine(r.n, field, fmt.Sprintf(format, args...))
}

// next returns the next line.
func (r *threadReader) next(what string) ([]byte, error) {
	r.n++
	if r.lines.Scan() {
		return r.lines.Bytes(), nil
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, r.bad("", "has more than %d bytes", maxLine)
	case err != nil:
		return nil, r.bad("", "cannot be read: %v", err)
	}
	return nil, r.bad("", "is missing: the file ends before %s", what)
}

// headOf reads the first line, of a file of the format, in one of the versions.
func (r *threadReader) headOf(format, what string, versions ...int) (h fileHead, err error) {
	line, err := r.next("the line that says what it is")
	if err != nil {
		return h, err
	}
	r.sum.Write(line)
	if err := json.Unmarshal(line, &h); err != nil || h.Format != format {
		return h, r.bad("format", "is not %s: this is no %s", format, what)
	}
	if !slices.Contains(versions, h.Version) {
		return h, r.bad("version", "is %d, and this program reads up to %d; use one that reads it", h.Version, slices.Max(versions))
	}
	return h, nil
}

func (r *threadReader) head() (h fileHead, err error) {
	if h, err = r.headOf(threadFormat, "thread that 'mesh threads export' printed", threadVersion, threadFileVersion); err != nil {
		return h, err
	}
	if id, err := mesh.ParseThreadID(h.Thread); err != nil || id != h.Thread {
		return h, r.bad("threadId", "must be a UUID v4, and is %q", mesh.Clip(h.Thread, 60))
	}
	if h.Events < 1 {
		return h, r.bad("events", "must be above 0, and is %d", h.Events)
	}
	return h, nil
}

func (r *threadReader) event() (*meshv1.Event, error) {
	line, err := r.next("all of its events")
	if err != nil {
		return nil, err
	}
	r.sum.Write(line)
	ev, raw := new(meshv1.Event), rawEvent{}
	if json.Unmarshal(line, &raw) == nil && raw.Raw != nil {
		if err := proto.Unmarshal(raw.Raw, ev); err != nil {
			return nil, r.bad("raw", "is no event")
		}
		return ev, nil
	}
	if err := protojson.Unmarshal(line, ev); err != nil {
		return nil, r.bad("", "is no event: %s", protoWords.ReplaceAllString(err.Error(), ""))
	}
	return ev, nil
}

// protoWords are what protojson begins its errors with: the line within a line.
var protoWords = regexp.MustCompile(`^proto:[\s\x{a0}]*(syntax error )?(\(line 1:\d+\):[\s\x{a0}]*)?`)

// end checks the line, which is to be the last one.
func (r *threadReader) end(line []byte) error {
	var end fileEnd
	if json.Unmarshal(line, &end) != nil || end.SHA256 == "" {
		return r.bad("sha256", "is missing: there are more events than the first line says, or the end is another file's")
	}
	if is := hex.EncodeToString(r.sum.Sum(nil)); end.SHA256 != is {
		return r.bad("sha256", "is %s, and what is before it has %s: the file was changed", mesh.Clip(end.SHA256, 64), is)
	}
	if r.n++; r.lines.Scan() {
		return r.bad("", "comes after the end")
	}
	return nil
}

// renamer returns what gives an event of a thread the ids that it has in another one, of the
// thread and of its tasks and executions, in all texts and in what agents noted: tools tell
// models of executions, which name them again.
func renamer(from, to string) func(*meshv1.Event) {
	hexOf := func(id string) string { return strings.ReplaceAll(id, "-", "") }
	execution := regexp.MustCompile(hexOf(from) + "(-[0-9a-f]{16})")
	name := func(s string) string {
		return execution.ReplaceAllString(strings.ReplaceAll(s, from, to), hexOf(to)+"$1")
	}
	return func(ev *meshv1.Event) { renameIn(ev.ProtoReflect(), name) }
}

// notedData is what agents note.
const notedData protoreflect.FullName = "mesh.v1.StateNoted.data"

// renameIn replaces the texts in the message.
func renameIn(m protoreflect.Message, name func(string) string) {
	one := func(f protoreflect.FieldDescriptor, v protoreflect.Value, set func(protoreflect.Value)) {
		if f.Message() != nil {
			renameIn(v.Message(), name)
		} else if f.Kind() == protoreflect.StringKind {
			set(protoreflect.ValueOfString(name(v.String())))
		} else if f.FullName() == notedData {
			set(protoreflect.ValueOfBytes([]byte(name(string(v.Bytes())))))
		}
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, of protoreflect.Value) bool {
				one(f.MapValue(), of, func(to protoreflect.Value) { v.Map().Set(k, to) })
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				one(f, v.List().Get(i), func(to protoreflect.Value) { v.List().Set(i, to) })
			}
		default:
			one(f, v, func(to protoreflect.Value) { m.Set(f, to) })
		}
		return true
	})
}
