package node_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// part of T9: by default ten log-ins fail in a second from one address, and the next are
// told to come later, over whichever face; a token that counts is not held up.
func TestEveryFaceSlowsThoseWhoCannotLogIn(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.RateLimit.FailedLogins = "tokens", userTokens(t), 0
	m := start(t, cfg, map[string]run{"main": echo})
	for face, send := range faces() {
		answers := map[string]int{}
		for i := 0; i < 60 && answers["RESOURCE_EXHAUSTED, later"] == 0; i++ {
			answers[send(t, m, "hello", bearer("nobody"))]++
		}
		if answers["RESOURCE_EXHAUSTED, later"] == 0 || answers["OK"] > 0 {
			t.Errorf("%s: %v", face, answers)
		}
		if got := send(t, m, "hello", bearer(userOf(face))); got != "OK" {
			t.Errorf("%s: who can log in: %s", face, got)
		}
	}
}

// part of T5: who does not say who it is, is refused by its headers alone: nothing waits
// for what it has yet to send, over whichever binding.
func TestAStrangersMessageIsNotWaitedFor(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	m := start(t, cfg, map[string]run{"main": echo})
	for name, path := range map[string]string{"REST": "/message:send", "REST, SSE": "/message:stream", "JSON-RPC": "/", "REST 0.3": "/v1/message:send", "of an agent": "/agents/main/message:send"} {
		t.Run(name, func(t *testing.T) {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(m.web(), "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil { // the body may take 30
				t.Fatal(err)
			}
			_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAuthorization: Bearer wrong\r\nContent-Length: 1000000\r\n\r\n{", path, strings.TrimPrefix(m.web(), "http://"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Fatalf("%v, %v", resp, err)
			}
			_ = resp.Body.Close()
		})
	}
	for name, tt := range map[string]struct {
		token string
		want  codes.Code
	}{"a wrong token": {"wrong", codes.Unauthenticated}, "none": {"", codes.Unauthenticated}, "the right one": {"secret-of-tenant-a", codes.DeadlineExceeded}} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if tt.want == codes.DeadlineExceeded { // whose message is waited for
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		}
		if tt.token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+tt.token)
		}
		stream, err := raw(t, m.Any().GRPC).NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, a2apb.A2AService_SendMessage_FullMethodName)
		if err == nil { // and nothing is sent
			err = stream.RecvMsg(new(a2apb.SendMessageResponse))
		}
		if status.Code(err) != tt.want {
			t.Errorf("gRPC with %s: %v, want %v", name, err, tt.want)
		}
		cancel()
	}
}
