package node_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// bytesOf are n bytes that begin with the word.
func bytesOf(word string, n int) []byte {
	return append([]byte(word), bytes.Repeat([]byte{0xa5}, n-len(word))...)
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// uploadTo uploads the bytes for the thread over gRPC, from the offset on.
func uploadTo(ctx context.Context, m *testMesh, t *testing.T, thread string, data []byte, offset int) (*meshv1.Blob, error) {
	t.Helper()
	stream, err := meshv1.NewBlobServiceClient(m.raw(t)).UploadBlob(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&meshv1.UploadBlobRequest{ThreadId: thread, Sha256: hashOf(data), Size: int64(len(data)), Offset: int64(offset)})
	for at := offset; err == nil && at < len(data); at += mesh.MaxPiece {
		err = stream.Send(&meshv1.UploadBlobRequest{Data: data[at:min(at+mesh.MaxPiece, len(data))]})
	}
	resp, err := stream.CloseAndRecv()
	return resp.GetBlob(), err
}

// readFrom reads a blob of the thread over gRPC.
func readFrom(ctx context.Context, m *testMesh, t *testing.T, thread, hash string) (data []byte, err error) {
	t.Helper()
	stream, err := meshv1.NewBlobServiceClient(m.raw(t)).ReadBlob(ctx, &meshv1.ReadBlobRequest{ThreadId: thread, Sha256: hash})
	for err == nil {
		var resp *meshv1.ReadBlobResponse
		if resp, err = stream.Recv(); err == nil {
			data = append(data, resp.GetData()...)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data, err
}

// with is a message in the thread with the part.
func with(thread string, p *a2apb.Part) *a2apb.SendMessageRequest {
	req := say("look at this")
	req.Message.ContextId = thread
	req.Message.Parts = append(req.Message.Parts, p)
	return req
}

// web makes a request to the gateway, and returns the answer with its body.
func (m *testMesh) get(t *testing.T, method, url string, body []byte, headers ...string) (*http.Response, []byte) {
	t.Helper()
	if strings.HasPrefix(url, "/") {
		url = "http://" + m.web() + url
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp, data
}

// A filer is an agent that answers with a file, and remembers what it was told.
type filer struct {
	a2apb.UnimplementedA2AServiceServer
	file []byte
	told chan *a2apb.Message
}

func (a *filer) SendStreamingMessage(req *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	a.told <- req.GetMessage()
	return stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{
		Id: "task", ContextId: "context", Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED},
		Artifacts: []*a2apb.Artifact{{ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Raw{Raw: a.file}, Filename: "report.bin", MediaType: "application/x-test"}}}},
	}}})
}

// finding R4: whatever was accepted at its bound is read back over every face: a message with
// text that is as long as may be, one with a file in it, and one that refers to a file.
func TestWhatWasAcceptedIsReadBackOverEveryFace(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	file := bytesOf("file", 2*mesh.MaxEvent)
	big := bytesOf("big", 9*mesh.MaxEvent+1)
	thread := mesh.NewThreadID()
	uploaded, err := uploadTo(in(t, thread), m, t, thread, big, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		part *a2apb.Part
		want []byte // of the file
	}{
		"long text":             {part: &a2apb.Part{Content: &a2apb.Part_Text{Text: strings.Repeat("x", mesh.MaxEvent-20<<10)}}},
		"a file in the message": {&a2apb.Part{Content: &a2apb.Part_Raw{Raw: file}, Filename: "a b.bin"}, file},
		"a file beside it":      {&a2apb.Part{Content: &a2apb.Part_Url{Url: uploaded.GetUrl()}, Filename: "../etc/big.bin"}, big},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := m.edge().SendStreamingMessage(in(t, thread), with(thread, tt.part))
			s := hear(t, stream, err)
			if s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
				t.Fatalf("the task is %v: %v", s.state, s.status)
			}
			for face, conn := range m.bindings(t) {
				task, err := a2apb.NewA2AServiceClient(conn).GetTask(plain(t), &a2apb.GetTaskRequest{Id: s.task.GetId()})
				if err != nil {
					t.Errorf("over %s: %v", face, err)
					continue
				}
				got := task.GetHistory()[0].GetParts()[1]
				if tt.want == nil {
					if got.GetText() != tt.part.GetText() {
						t.Errorf("over %s the text has %d bytes", face, len(got.GetText()))
					}
					continue
				}
				if got.GetFilename() != tt.part.GetFilename() || got.GetMediaType() != tt.part.GetMediaType() {
					t.Errorf("over %s the part is %v", face, got)
				}
				resp, data := m.get(t, http.MethodGet, got.GetUrl(), nil)
				if resp.StatusCode != http.StatusOK || !bytes.Equal(data, tt.want) {
					t.Errorf("over %s %s has %d bytes: %s", face, got.GetUrl(), len(data), resp.Status)
				}
			}
			m.eventsFit(t, thread, hashOf(tt.want), tt.want)
		})
	}
}

// eventsFit reads the thread by pages and as a stream, and the file to which an event refers.
func (m *testMesh) eventsFit(t *testing.T, thread, hash string, want []byte) {
	t.Helper()
	threads := meshv1.NewThreadServiceClient(m.raw(t))
	last := int64(0)
	for more := true; more; {
		page, err := threads.ReadThread(in(t, thread), &meshv1.ReadThreadRequest{ThreadId: thread, AfterSeq: last, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		more = page.GetMore()
		last = page.GetEvents()[len(page.GetEvents())-1].GetSeq()
	}
	follow, err := threads.FollowThread(in(t, thread), &meshv1.FollowThreadRequest{ThreadId: thread})
	for at := int64(0); at < last; {
		var resp *meshv1.FollowThreadResponse
		if err == nil {
			resp, err = follow.Recv()
		}
		if err != nil {
			t.Fatalf("after %d: %v", at, err)
		}
		at = resp.GetEvent().GetSeq()
	}
	if want == nil {
		return
	}
	if data, err := readFrom(in(t, thread), m, t, thread, hash); err != nil || !bytes.Equal(data, want) {
		t.Errorf("%d bytes are read, %v", len(data), err)
	}
}

// finding R4: what an agent says with a file above an event is logged with a reference, and read
// by its URL. It gets the bytes that were sent for it where they have room, and else the URL.
func TestAgentsOfOthersGetAndGiveLargeFiles(t *testing.T) {
	a := &filer{file: bytesOf("report", 2*mesh.MaxEvent), told: make(chan *a2apb.Message, 2)}
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	joinAs(plain(t), t, m.raw(t), "filer", a, false)
	small, big, thread := bytesOf("small", 2*mesh.MaxEvent), bytesOf("big", 5*mesh.MaxEvent), mesh.NewThreadID()
	for _, sent := range [][]byte{small, big} {
		b, err := uploadTo(in(t, thread), m, t, thread, sent, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx := metadata.AppendToOutgoingContext(in(t, thread), "agent", "filer")
		stream, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(ctx, with(thread, &a2apb.Part{Content: &a2apb.Part_Url{Url: b.GetUrl()}, Filename: "sent"}))
		s := hear(t, stream, err)
		if s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
			t.Fatalf("the task is %v: %v", s.state, s.status)
		}
		told := (<-a.told).GetParts()
		last := told[len(told)-1]
		got := last.GetRaw()
		if last.GetUrl() != "" {
			_, got = m.get(t, http.MethodGet, last.GetUrl(), nil)
		}
		if !bytes.Equal(got, sent) || last.GetFilename() != "sent" || (last.GetUrl() == "") != (len(sent) == len(small)) {
			t.Errorf("of %d bytes the agent gets %d, by %q", len(sent), len(got), last.GetUrl())
		}
		task, err := a2apb.NewA2AServiceClient(m.raw(t)).GetTask(ctx, &a2apb.GetTaskRequest{Id: s.task.GetId()})
		if err != nil {
			t.Fatal(err)
		}
		p := task.GetArtifacts()[0].GetParts()[0]
		if resp, data := m.get(t, http.MethodGet, p.GetUrl(), nil); !bytes.Equal(data, a.file) || p.GetMediaType() != "application/x-test" || !strings.Contains(resp.Header.Get("Content-Disposition"), "report.bin") {
			t.Errorf("%v: %s %v", p, resp.Status, resp.Header)
		}
	}
}

// A blob is read by who may read its thread, and looks to others like one that there is not:
// those of another tenant, a colleague, and who uploads the same bytes.
func TestBlobsAreReadByWhoMayReadTheThread(t *testing.T) {
	m := guarded(t)
	data, thread := bytesOf("secret", 3*mesh.MaxEvent), mesh.NewThreadID()
	hash := hashOf(data)
	b, err := uploadTo(as(plain(t), "a", "thread-id", thread), m, t, thread, data, 0)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(as(plain(t), "a", "thread-id", thread), with(thread, &a2apb.Part{Content: &a2apb.Part_Url{Url: b.GetUrl()}}))
	if s := hear(t, stream, err); s.task == nil {
		t.Fatal(err)
	}
	at := "/mesh/v1/threads/" + thread + "/blobs/"
	for _, user := range []string{"b", "eve"} {
		if _, err := uploadTo(as(plain(t), user, "thread-id", thread), m, t, thread, data, 0); err != nil { // it says nothing
			t.Errorf("%s uploads the same: %v", user, err)
		}
		_, err := readFrom(as(plain(t), user), m, t, thread, hash)
		_, none := readFrom(as(plain(t), user), m, t, mesh.NewThreadID(), hash)
		if status.Code(err) != codes.NotFound || status.Convert(err).Message() != status.Convert(none).Message() {
			t.Errorf("%s: %v, and of a thread that there is not %v", user, err, none)
		}
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if resp, body := m.get(t, method, at+hash, nil, of(user)...); resp.StatusCode != http.StatusNotFound || bytes.Contains(body, []byte("secret")) || resp.Header.Get("ETag") != "" {
				t.Errorf("%s of %s: %s", method, user, resp.Status)
			}
		}
		own := mesh.NewThreadID()
		_, err = a2apb.NewA2AServiceClient(m.raw(t)).SendMessage(as(plain(t), user, "thread-id", own), with(own, &a2apb.Part{Content: &a2apb.Part_Url{Url: b.GetUrl()}}))
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s refers to it in another thread: %v", user, err)
		}
	}
	if resp, _ := m.get(t, http.MethodGet, at+hash, nil); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("nobody: %s", resp.Status)
	}
	for _, path := range []string{at + "..%2f..%2fgrant.key", at + strings.ToUpper(hash), at + hash[1:], at + "%2e%2e", "/mesh/v1/threads/../blobs/" + hash} {
		if resp, _ := m.get(t, http.MethodGet, path, nil, of("a")...); resp.StatusCode == http.StatusOK {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	if resp, got := m.get(t, http.MethodGet, at+hash+"?filename=..%2F..%2Fa%22%0d%0aX-Evil:%201.html", nil, of("a")...); resp.StatusCode != http.StatusOK || !bytes.Equal(got, data) ||
		resp.Header.Get("X-Evil") != "" || resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(resp.Header.Get("Content-Disposition"), `attachment; filename="aX-Evil`) {
		t.Errorf("its owner: %s %v", resp.Status, resp.Header)
	}
}

// Over HTTP an upload goes on where it was cut off, and ranges are read.
func TestBlobsOverHTTPGoOnAndHaveRanges(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	data, thread := bytesOf("0123456789", 5_000_000), mesh.NewThreadID()
	hash, at := hashOf(data), "/mesh/v1/threads/"+thread+"/blobs/"
	part := func(from, to int) []string {
		return []string{"Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(data))}
	}
	if resp, body := m.get(t, http.MethodPut, at+hash, data[:2_000_000], part(0, 2_000_000)...); resp.StatusCode != http.StatusBadRequest || !bytes.Contains(body, []byte("2000000")) {
		t.Errorf("a part: %s %s", resp.Status, body)
	}
	if resp, body := m.get(t, http.MethodGet, at+hash+":status", nil); resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"2000000"`)) {
		t.Errorf("of which is said: %s %s", resp.Status, body)
	}
	if resp, body := m.get(t, http.MethodPut, at+hash, data[2_000_000:], part(2_000_000, len(data))...); resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("urn:agentmesh:blob:"+hash)) {
		t.Errorf("the rest: %s %s", resp.Status, body)
	}
	if resp, _ := m.get(t, http.MethodGet, at+hash, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("before a message refers to it: %s", resp.Status)
	}
	req := with(thread, &a2apb.Part{Content: &a2apb.Part_Url{Url: fmt.Sprintf("urn:agentmesh:blob:%s:%d", hash, len(data))}})
	if _, err := m.edge().SendMessage(in(t, thread), req); err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]struct {
		code int
		body []byte
	}{
		"":                    {200, data},
		"bytes=0-9":           {206, data[:10]},
		"bytes=4999990-":      {206, data[4_999_990:]},
		"bytes=-5":            {206, data[len(data)-5:]},
		"bytes=-9999999":      {206, data},
		"bytes=5000000-":      {416, nil},
		"bytes=1-2,4-5":       {200, data},
		"bytes=300000-700000": {206, data[300_000:700_001]},
	} {
		resp, body := m.get(t, http.MethodGet, at+hash, nil, "Range", header)
		if resp.StatusCode != want.code || want.body != nil && !bytes.Equal(body, want.body) {
			t.Errorf("%q: %s, %d bytes", header, resp.Status, len(body))
		}
	}
	if resp, body := m.get(t, http.MethodHead, at+hash, nil); resp.ContentLength != int64(len(data)) || len(body) > 0 || resp.Header.Get("ETag") != `"`+hash+`"` {
		t.Errorf("HEAD: %s %v", resp.Status, resp.Header)
	}
	if resp, body := m.get(t, http.MethodGet, at+hash, nil, "If-None-Match", `"`+hash+`"`); resp.StatusCode != http.StatusNotModified || len(body) > 0 {
		t.Errorf("which it has: %s", resp.Status)
	}
	if resp, _ := m.get(t, http.MethodPost, at+hash, nil, "Content-Type", "application/json"); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", resp.Status)
	}
	if resp, _ := m.get(t, http.MethodPut, at+unknownBytes, []byte("other bytes")); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("bytes that are not what the path says: %s", resp.Status)
	}

	// They go with the thread.
	if _, err := meshv1.NewThreadServiceClient(m.raw(t)).DeleteThread(in(t, thread), &meshv1.DeleteThreadRequest{ThreadId: thread}); err != nil {
		t.Fatal(err)
	}
	if resp, _ := m.get(t, http.MethodGet, at+hash, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("after the thread is deleted: %s", resp.Status)
	}
}
