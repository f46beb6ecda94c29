package mcp

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

const (
	oneMessage   = `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
	otherMessage = ` {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\r\n"
	oneBatch     = `[{"jsonrpc":"2.0","id":2,"result":{}}]` + "\n"
)

// read reads all messages; most is how long they may be, if it is not 0.
func read(from io.Reader, log io.Writer, most int) (string, error) {
	m := newMessages(io.NopCloser(from), slog.New(slog.NewTextHandler(log, nil)))
	if most > 0 {
		m.most = most
	}
	got, err := io.ReadAll(m)
	return string(got), err
}

func TestWhatIsNoMessageIsSkipped(t *testing.T) {
	long := strings.Repeat("noise ", 5000)
	for _, in := range []string{
		oneMessage + otherMessage + oneBatch,
		"server is starting\n" + oneMessage + "\n\r\n" + otherMessage + "[INFO] ready\n" + oneBatch + "bye",
		`{"level":"info","msg":"a log in JSON"}` + "\n" + oneMessage + "42\nnull\n\"x\"\n[]\n[1]\n{}\n" + otherMessage + "{\"jsonrpc\":\"2.0\"\n" + oneBatch,
		long + "\n" + oneMessage + long + long + "\n" + otherMessage + "\xff\x00\n" + oneBatch + long,
	} {
		for name, from := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "by byte": iotest.OneByteReader, "with its end": iotest.DataErrReader,
		} {
			got, err := read(from(strings.NewReader(in)), io.Discard, 0)
			if want := oneMessage + otherMessage + oneBatch; got != want || err != nil {
				t.Errorf("%s, %.40q gives %q, %v", name, in, got, err)
			}
		}
	}
	// The last line needs no end.
	if got, err := read(strings.NewReader(strings.TrimSpace(oneMessage)), io.Discard, 0); got != strings.TrimSpace(oneMessage) || err != nil {
		t.Errorf("without an end: %q, %v", got, err)
	}
	// The error of the pipe comes through, after what was there.
	gone := errors.New("gone")
	if got, err := read(io.MultiReader(strings.NewReader("x\n"+oneMessage), iotest.ErrReader(gone)), io.Discard, 0); got != oneMessage || !errors.Is(err, gone) {
		t.Errorf("before an error: %q, %v", got, err)
	}
}

func TestALineThatIsTooLongIsHeldNowhere(t *testing.T) {
	const most = 10_000
	noise := strings.Repeat("x", 3*most) + "\n"
	var log bytes.Buffer
	if got, err := read(strings.NewReader(noise+oneMessage), &log, most); got != oneMessage || err != nil {
		t.Errorf("a long line that is no message: %q, %v", got, err)
	}
	if log.Len() == 0 || log.Len() > 2*maxSaid {
		t.Errorf("the log has %d bytes", log.Len())
	}
	message := `{"jsonrpc":"2.0","id":1,"result":{"x":"` + strings.Repeat("x", 3*most) + `"}}` + "\n"
	if got, err := read(strings.NewReader(oneMessage+message), io.Discard, most); got != oneMessage || !errors.Is(err, errTooLong) {
		t.Errorf("a long message: %q, %v", got, err)
	}
}

func TestSkippedLinesAreLoggedNowAndThen(t *testing.T) {
	var log bytes.Buffer
	in, out := io.Pipe()
	m := newMessages(in, slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	m.now = func() time.Time { return now }
	says := func(text string) {
		t.Helper()
		go func() { _, _ = io.WriteString(out, text+"\n"+oneMessage) }() // the read below takes all of it
		if _, err := io.ReadFull(m, make([]byte, len(oneMessage))); err != nil {
			t.Fatal(err)
		}
	}
	says("first\x1b[31m")
	for range 50 {
		says("more")
	}
	now = now.Add(quietTime)
	says("last")
	_ = m.Close()
	if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `text=first[31m lines=1`) || !strings.Contains(got, `text=last lines=51`) {
		t.Errorf("the log is %s", got)
	}
}
