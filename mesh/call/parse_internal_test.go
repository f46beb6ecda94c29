package call

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// Whatever comes is read as the standard library reads it, and refused as it is there.
func TestJSONIsReadAsTheStandardLibraryReadsIt(t *testing.T) {
	t.Parallel()
	seeds := []string{
		`{"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":"t","append":true,"artifact":{"artifactId":"a","parts":[{"text":"x\n\"é\\"},{"data":{"a":[1,-2.5e3,null,false]}}]}}}}`,
		`[1,2,{"a":"b","a":"c"}]`, `"\ud83d\ude00 \u00e9 \ud800"`, "\"\xff\"", "\"\x01\"", `01`, `-`, `1.`, `+1`, `.5`, `1e5`, `1e999`, `nul`, `true false`, `[1,]`, `{"a":1,}`, `{,}`, `{"a"}`, ` `, ``,
		`{"a":1} x`, `'a'`, `"\x"`, `"a`, "\ufeff1", `NaN`, `Infinity`, `/* */1`, "\"a\nb\"", `"\/"`, `[1 2]`, `{"a" 1}`, "[\v1]", strings.Repeat("[", 600) + strings.Repeat("]", 600),
	}
	alphabet := []byte("{}[]\",:\\utfnre0123456789-+.eE \n\t\x00\x1f\x7f\xc3\xa9\xff/ax")
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 50_000 {
		raw := []byte(seeds[i%len(seeds)])
		if i >= len(seeds) {
			for range 1 + r.IntN(3) {
				at := r.IntN(len(raw) + 1)
				switch c := alphabet[r.IntN(len(alphabet))]; r.IntN(3) {
				case 0:
					raw = append(raw[:at:at], append([]byte{c}, raw[at:]...)...)
				case 1:
					if at < len(raw) {
						raw = append(raw[:at:at], raw[at+1:]...)
					}
				default:
					if at < len(raw) {
						raw[at] = c
					}
				}
			}
		}
		var want any
		wantErr := json.Unmarshal(raw, &want)
		got, err := parse(raw)
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %q is read as %v, %v; want %v, %v", seed, raw, got, err, want, wantErr)
		}
	}
}
