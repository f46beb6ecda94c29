package call

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	fastjson "github.com/segmentio/encoding/json"
)

// parse reads a JSON value as [json.Unmarshal] does, in a third of the time where that is
// sure to come to the same: the value is not nested so deep that reading it could exhaust
// the stack, and its text needs no mending.
func parse(raw []byte) (v any, err error) {
	const brackets = 2 * maxDepth
	plain := bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) <= brackets && utf8.Valid(raw) && !bytes.Contains(raw, []byte(`\u`))
	if plain && fastjson.Unmarshal(raw, &v) == nil {
		return v, nil
	}
	v = nil
	err = json.Unmarshal(raw, &v) // which says where it errs
	return v, err
}
