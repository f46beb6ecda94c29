package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// The format of a thread in a file, and its version, which a program that reads another one
// refuses. The lines are a fileHead, the events, and a fileEnd; in version 2, which is that of
// threads with large files, each of these comes before the end, as a fileBlob and its fileData.
const (
	threadFormat      = "agentmesh.thread"
	threadVersion     = 1
	threadFileVersion = 2
)

// A fileHead is the first line: of a thread, or of a tenant.
type fileHead struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Tenant  string `json:"tenantId"`
	Thread  string `json:"threadId,omitempty"`
	Events  int64  `json:"events,omitempty"`
	Export  string `json:"exportId,omitempty"`
	Time    string `json:"time,omitempty"`
}

// A fileEnd is the last line: the hash of all bytes before it.
type fileEnd struct {
	SHA256 string `json:"sha256"`
}

// A fileBlob is the line before a large file.
type fileBlob struct {
	Blob blobLine `json:"blob"`
}

type blobLine struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// A fileData is a line of the bytes of one.
type fileData struct {
	Data []byte `json:"data"`
}

// A rawEvent is the line of an event that has something which this program does not know,
// and would lose: its bytes as the log has them.
type rawEvent struct {
	Raw []byte `json:"raw"`
}

func (a *app) threadsExportCommand() *cobra.Command {
	var thread string
	return &cobra.Command{
		Use:   "export [ID]",
		Short: "Print a thread as lines of JSON, which can be imported",
		Long: `Print a thread as lines of JSON: which one it is and how many events it has, each of its
events as it is in the log, the large files to which these refer, and the SHA-256 of all that. It has what there is when the
command begins. 'mesh threads import' reads it, here or in another mesh.`,
		Example: `  mesh threads export 550e8400-e29b-41d4-a716-446655440000 >thread.jsonl
  mesh threads export --thread 550e8400-e29b-41d4-a716-446655440000`,
		ValidArgsFunction: a.offer(threadNames),
		Args:              a.threadArg(&thread),
		RunE: a.stream(func(ctx context.Context, c *client, _ []string) error {
			is, err := c.threads.GetThread(c.call(ctx, thread), &meshv1.GetThreadRequest{ThreadId: thread})
			if err != nil {
				return err
			}
			who, err := c.access.GetAccess(c.call(ctx, ""), &meshv1.GetAccessRequest{})
			if err != nil {
				return err
			}
			w, version := newLines(a.stdout), threadVersion
			if is.GetThread().GetBlobBytes() > 0 {
				version = threadFileVersion
			}
			w.put(fileHead{Format: threadFormat, Version: version, Tenant: who.GetTenantId(), Thread: thread, Events: is.GetThread().GetSeq()})
			n := int64(0)
			var files blobList
			for ev, err := range c.events(ctx, thread, false) {
				if err != nil {
					return err
				}
				if ev.GetSeq() > is.GetThread().GetSeq() {
					break
				}
				n++
				w.event(ev)
				files.add(ev)
			}
			if err := c.exportBlobs(ctx, w, thread, files.list); err != nil {
				return err
			}
			if n != is.GetThread().GetSeq() {
				return mesh.Errorf(mesh.Conflict, "mesh.export", "the thread was deleted meanwhile; what was printed is not all of it")
			}
			return w.end()
		}),
	}
}

// lines writes the lines of a file. The first error is that of end.
type lines struct {
	w   io.Writer
	sum hash.Hash
	err error
}

func newLines(w io.Writer) *lines { return &lines{w: w, sum: sha256.New()} }

func (l *lines) put(v any) {
	data, err := json.Marshal(v)
	l.line(data, err)
}

func (l *lines) event(ev *meshv1.Event) {
	if !hasUnknown(ev.ProtoReflect()) {
		data, err := protojson.Marshal(ev)
		l.line(data, err)
		return
	}
	data, err := proto.Marshal(ev)
	if err == nil {
		l.put(rawEvent{data})
	} else if l.err == nil {
		l.err = err
	}
}

func (l *lines) line(data []byte, err error) {
	if l.err != nil {
		return
	}
	if err == nil {
		data = append(data, '\n')
		l.sum.Write(data)
		_, err = l.w.Write(data)
	}
	l.err = err
}

func (l *lines) end() error {
	l.put(fileEnd{hex.EncodeToString(l.sum.Sum(nil))})
	return l.err
}

// hasUnknown reports whether the message, or one in it, has fields that this program does not
// know, of which JSON has nothing.
func hasUnknown(m protoreflect.Message) (found bool) {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				found = hasUnknown(v.Message())
				return !found
			})
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				found = found || hasUnknown(v.List().Get(i).Message())
			}
		default:
			found = hasUnknown(v.Message())
		}
		return !found
	})
	return found
}
