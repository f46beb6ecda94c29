package mesh

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Traceparents are those of W3C Trace Context: "00-" trace "-" span "-" flags, in
// hexadecimal.
const (
	traceparentLen = 55
	spanAt         = 36 // where the span begins
	flagsAt        = 53
)

// maxTraceparent bounds traceparents of later versions, in bytes.
const maxTraceparent = 128

// ValidTraceparent reports whether s has the form of W3C Trace Context version 00, or of
// a later one, which only adds to its end, up to 128 bytes.
func ValidTraceparent(s string) bool {
	if len(s) < traceparentLen || len(s) > maxTraceparent || s[2] != '-' || s[spanAt-1] != '-' || s[flagsAt-1] != '-' {
		return false
	}
	hexadecimal := func(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
	zero := func(s string) bool { return strings.Trim(s, "0") == "" }
	trace, span := s[3:spanAt-1], s[spanAt:flagsAt-1]
	switch {
	case !hexadecimal(s[:2]) || s[:2] == "ff" || !hexadecimal(trace) || zero(trace) || !hexadecimal(span) || zero(span) || !hexadecimal(s[flagsAt:traceparentLen]):
		return false
	case s[:2] == "00":
		return len(s) == traceparentLen
	}
	return len(s) == traceparentLen || s[traceparentLen] == '-'
}

// LoggedTraceparent is a valid traceparent as the log has it: in version 00, which is all
// that is understood of later ones. It is "" for "".
func LoggedTraceparent(s string) string {
	if len(s) < traceparentLen || s[:2] == "00" {
		return s
	}
	return "00" + s[2:traceparentLen]
}

// SpanOf is the id of the execution's span, in hexadecimal. It follows from the
// execution's own id, so that whoever sees it end, also after a crash, on another node,
// tells of the same span as those who were called in it.
func SpanOf(x ExecutionID) string {
	sum := sha256.Sum256([]byte(x))
	sum[0] |= 1 // zeros are no id
	return hex.EncodeToString(sum[:8])
}

// Under is the traceparent, which is valid, with the execution's span in place of its own;
// "" for "".
func Under(traceparent string, x ExecutionID) string {
	if traceparent == "" {
		return ""
	}
	return traceparent[:spanAt] + SpanOf(x) + traceparent[flagsAt-1:traceparentLen]
}

// Below is the traceparent with which an agent is called that the execution, which was
// called with that traceparent, has at work on the child. Where the mesh tells of spans,
// the execution was called with its own, and so is the child; elsewhere what came is
// passed on.
func Below(traceparent string, x, child ExecutionID) string {
	if Under(traceparent, x) != traceparent {
		return traceparent
	}
	return Under(traceparent, child)
}
