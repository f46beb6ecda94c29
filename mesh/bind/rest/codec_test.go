package rest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// Whatever comes as a body is either a message, which reads back as it was
// written, or an error that names a field.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"é\u0000\n"}]}}`, `{}`, `[]`, ``, "\xff",
		`{"message":{"role":"USER"}}`, `{"message":{"parts":[{"text":5}]}}`, "{\n\"message\": nope}", `{"message":{"parts":[{"data":{"a":[[[null]]]}}]}}`,
		strings.Repeat("[", 1_200), strings.Repeat(`{"metadata":`, 1_200), `{"metadata":{"x":{"y":1,}}}`, `{"":{"":[{"":`,
		`{"message":{"parts":[{"raw":"####"}]}}`, `{"a":1}{"b":2}`, `"x"`, `{"message":"\ud800"}`, `{"message":{"text":1e999}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b := &body{Reader: bytes.NewReader(raw), raw: raw}
		var m a2apb.SendMessageRequest
		err := codec{}.NewDecoder(b).Decode(&m)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			if b.fault == nil || len(b.fault.Details()) != 1 {
				t.Fatalf("%q: %v has no fault that names a field", raw, err)
			}
			v := b.fault.Details()[0].(*errdetails.BadRequest).GetFieldViolations()
			if len(v) != 1 || v[0].GetField() == "" || !strings.HasPrefix(b.fault.Message(), v[0].GetField()+": ") {
				t.Errorf("%q: %v does not name a field", raw, b.fault)
			}
			return
		}
		written, err := codec{}.Marshal(&m)
		if err != nil {
			t.Fatalf("%q: read, and cannot be written: %v", raw, err)
		}
		var again a2apb.SendMessageRequest
		if err := (codec{}).Unmarshal(written, &again); err != nil || !proto.Equal(&m, &again) {
			t.Errorf("%q: was written as %q, which reads as %v (%v)", raw, written, &again, err)
		}
	})
}
