package rest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// trickle is a connection on which a byte arrives each second, and its
// response writer: a read that waits fails when the deadline passes.
type trickle struct {
	*httptest.ResponseRecorder
	left     int
	deadline time.Time
}

func (c *trickle) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

func (c *trickle) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Second)
	if !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	c.left--
	p[0] = ' '
	return 1, nil
}

// anybody is a connection to services that know everybody.
type anybody struct{ rpc.Conn }

func (anybody) Known(context.Context) (mesh.Principal, error) { return mesh.Principal{}, nil }

func (anybody) Unfinished() *rpc.Unfinished { return rpc.NewUnfinished(0) }

func TestABodyMustArriveInTimeAndItsAnswerMayTakeLonger(t *testing.T) {
	for name, tt := range map[string]struct {
		bytes int
		code  int
		says  string
	}{
		"in time":  {29, 0, ""},
		"too slow": {3600, http.StatusRequestTimeout, "30s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &trickle{ResponseRecorder: httptest.NewRecorder(), left: tt.bytes}
				g := &gateway{conn: anybody{}, opts: Options{MaxBody: defaultMaxBody}}
				begun := time.Now()
				_, code, bad := g.readBody(c, httptest.NewRequest(http.MethodPost, "/message:send", c))
				if code != tt.code || bad != nil && !strings.Contains(bad.Message(), tt.says) {
					t.Errorf("got %d %v, want %d %q", code, bad, tt.code, tt.says)
				}
				if took := time.Since(begun); took > bodyTimeout {
					t.Errorf("it took %v", took)
				}
				if open := c.deadline.IsZero(); open != (tt.code == 0) {
					t.Errorf("the deadline is %v afterwards", c.deadline)
				}
			})
		})
	}
}
