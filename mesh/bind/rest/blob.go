package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// Where the bytes of a blob are, between the thread and the SHA-256.
const (
	threadsPath = "/mesh/v1/threads/"
	blobsPath   = "/blobs/"
)

// blobOf returns what a path names that is the place of a blob.
func blobOf(path string) (thread, hash string, ok bool) {
	rest, ok := strings.CutPrefix(path, threadsPath)
	if !ok {
		return "", "", false
	}
	thread, hash, ok = strings.Cut(rest, blobsPath)
	return thread, hash, ok && thread != "" && hash != "" && !strings.ContainsAny(thread+hash, "/:")
}

// serveBlob serves the bytes of a blob. They are streams, of which neither side is JSON.
func (g *gateway) serveBlob(w http.ResponseWriter, r *http.Request, thread, hash string) {
	md, bad := incoming(r, map[string]string{"thread_id": thread})
	if bad != nil {
		g.fail(w, http.StatusBadRequest, bad)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), metadataKey{}, md))
	var err error
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		err = g.readBlob(w, r, thread, hash)
	case http.MethodPut:
		err = g.writeBlob(w, r, thread, hash)
	default:
		w.Header().Set("Allow", "GET, HEAD, PUT")
		g.fail(w, http.StatusMethodNotAllowed, status.New(codes.Unimplemented, fmt.Sprintf("%s is not possible on a blob; use GET or PUT", clip(r.Method))))
		return
	}
	if err == nil {
		return
	}
	st := status.Convert(err)
	if st.Code() == codes.Unauthenticated {
		g.challenge(w.Header(), "")
	}
	g.fail(w, g.httpCode(st), st)
}

// writeBlob has the body uploaded. Of one that goes on, Content-Range says which part it is.
func (g *gateway) writeBlob(w http.ResponseWriter, r *http.Request, thread, hash string) error {
	from, size, bad := uploaded(r)
	if bad != nil {
		return bad.Err()
	}
	rc := http.NewResponseController(w)
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }() // not all writers have deadlines
	req, buffer := &meshv1.UploadBlobRequest{ThreadId: thread, Sha256: hash, Size: size, Offset: from}, make([]byte, mesh.MaxPiece)
	next := func() (proto.Message, error) {
		if first := req; first != nil { // who calls is found out before anything is read
			req = nil
			return first, nil
		}
		_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout))
		n, err := io.ReadFull(r.Body, buffer)
		switch {
		case n > 0:
			return &meshv1.UploadBlobRequest{Data: buffer[:n]}, nil
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, status.Error(codes.DeadlineExceeded, fmt.Sprintf("nothing came of the body for %v; go on after what has come", bodyTimeout))
		}
		return nil, status.Error(codes.Canceled, "the body was cut off; go on after what has come")
	}
	got := &reply{}
	if err := g.conn.Feed(r.Context(), meshv1.BlobService_UploadBlob_FullMethodName, next, got); err != nil {
		return err
	}
	text, err := codec{contentType: mimeJSON}.Marshal(got.message)
	if err != nil {
		return status.Error(codes.Internal, "the answer cannot be shown as JSON")
	}
	w.Header().Set("Content-Type", mimeJSON)
	_, _ = w.Write(text) // whoever is not there needs no answer
	return nil
}

// reply is a sink of the one answer of a call that was fed.
type reply struct{ message proto.Message }

func (*reply) Header(metadata.MD) error              { return nil }
func (r *reply) Send(m proto.Message, _ int64) error { r.message = m; return nil }

// uploaded is where the body of the request belongs: after how many bytes of how many.
func uploaded(r *http.Request) (from, size int64, bad *status.Status) {
	text := r.Header.Get("Content-Range")
	if text == "" {
		if r.ContentLength < 0 {
			return 0, 0, invalid("Content-Length", "is missing; say how many bytes there are")
		}
		return 0, r.ContentLength, nil
	}
	var to int64
	if n, err := fmt.Sscanf(text, "bytes %d-%d/%d", &from, &to, &size); n < 3 || err != nil || from < 0 || to < from-1 || to >= size {
		return 0, 0, invalid("Content-Range", "must be such as \"bytes 1048576-2097151/2097152\", and is %q", clip(text))
	}
	return from, size, nil
}

// readBlob writes the bytes, or the range of them that is asked for.
func (g *gateway) readBlob(w http.ResponseWriter, r *http.Request, thread, hash string) error {
	out := &blobWriter{w: w, r: r, rc: http.NewResponseController(w), hash: hash}
	req := &meshv1.ReadBlobRequest{ThreadId: thread, Sha256: hash}
	req.Offset, req.Length, out.ranged = asked(r, out.tag())
	out.asked = req
	err := g.conn.Stream(r.Context(), meshv1.BlobService_ReadBlob_FullMethodName, req, out)
	defer func() { _ = out.rc.SetWriteDeadline(time.Time{}) }()
	switch {
	case out.done && out.left > 0 && !out.bodyless: // no reader takes it for the whole
		panic(http.ErrAbortHandler)
	case out.done:
		return nil
	case out.ranged && status.Code(err) == codes.InvalidArgument:
		w.Header().Set("Accept-Ranges", "bytes")
		g.fail(w, http.StatusRequestedRangeNotSatisfiable, status.Convert(err))
		return nil
	}
	return err
}

// asked is the range of the bytes that the request asks for; of several, and of what has another
// tag, all.
func asked(r *http.Request, tag string) (offset, length int64, ranged bool) {
	if is := r.Header.Get("If-Range"); is != "" && is != tag {
		return 0, 0, false
	}
	spec, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	first, last, two := strings.Cut(spec, "-")
	if !ok || !two {
		return 0, 0, false
	}
	from, errFrom := strconv.ParseInt(first, 10, 64)
	to, errTo := strconv.ParseInt(last, 10, 64)
	switch {
	case first == "" && errTo == nil && to > 0:
		return -to, 0, true
	case errFrom == nil && from >= 0 && last == "":
		return from, 0, true
	case errFrom == nil && errTo == nil && from >= 0 && to >= from:
		return from, to - from + 1, true
	}
	return 0, 0, false
}

// A blobWriter is a sink of the bytes of a blob.
type blobWriter struct {
	w      http.ResponseWriter
	r      *http.Request
	rc     *http.ResponseController
	hash   string
	asked  *meshv1.ReadBlobRequest
	ranged bool

	done     bool // the response was begun
	bodyless bool
	left     int64 // bytes that are still to be written
}

// tag is the entity tag: the bytes are never others.
func (o *blobWriter) tag() string { return `"` + o.hash + `"` }

// errEnough ends a call of which no more is wanted.
var errEnough = errors.New("gateway: nothing more is wanted")

// Header implements [rpc.Sink].
func (o *blobWriter) Header(metadata.MD) error { return nil }

// Send implements [rpc.Sink].
func (o *blobWriter) Send(m proto.Message, _ int64) error {
	resp := m.(*meshv1.ReadBlobResponse)
	if !o.done {
		o.begin(resp.GetBlob().GetSize())
	}
	if o.bodyless {
		return errEnough
	}
	_ = o.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // not all writers have deadlines
	n, err := o.w.Write(resp.GetData())
	o.left -= int64(n)
	return err
}

// begin begins the response. The bytes are nobody's to be shown as a page of ours.
func (o *blobWriter) begin(size int64) {
	o.done = true
	from, n := o.asked.GetOffset(), o.asked.GetLength()
	if from < 0 {
		from = max(0, size+from)
	}
	if n == 0 || n > size-from {
		n = size - from
	}
	h := o.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", attachment(o.r.URL.Query().Get("filename")))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Accept-Ranges", "bytes")
	h.Set("ETag", o.tag())
	code := http.StatusOK
	switch {
	case strings.Contains(o.r.Header.Get("If-None-Match"), o.tag()):
		code, o.bodyless = http.StatusNotModified, true
	case o.ranged:
		code = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, from+n-1, size))
		fallthrough
	default:
		h.Set("Content-Length", strconv.FormatInt(n, 10))
		o.left, o.bodyless = n, o.r.Method == http.MethodHead
	}
	o.w.WriteHeader(code)
}

// attachment has browsers save the bytes, under the last part of the name that is asked for.
func attachment(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == '"' {
			return -1
		}
		return c
	}, strings.ToValidUTF8(name, ""))
	if name = strings.TrimLeft(name, "."); name == "" {
		return "attachment"
	}
	return mime.FormatMediaType("attachment", map[string]string{"filename": mesh.Clip(name, 120)})
}
