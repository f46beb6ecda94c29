package thread

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"agentmesh/mesh"
)

// equal compares states in all that they have.
var equal = cmp.Options{cmp.Exporter(func(reflect.Type) bool { return true }), protocmp.Transform()}

// A filler puts something into everything: no two numbers and texts are the same.
type filler struct {
	t *testing.T
	n int64
}

func (f *filler) fill(v reflect.Value, path string) {
	f.n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(f.n, f.n).UTC()))
		return
	case *a2apb.Message:
		v.Set(reflect.ValueOf(mesh.Say(fmt.Sprint(f.n))))
		return
	case map[string]any:
		v.Set(reflect.ValueOf(map[string]any{"n": float64(f.n), "l": []any{"x", true, nil}}))
		return
	case *mesh.Event:
		b := reflect.New(reflect.TypeFor[mesh.SkillCalled]()).Elem()
		f.fill(b, path+".Body")
		e := reflect.New(reflect.TypeFor[mesh.Event]()).Elem()
		for i := range e.NumField() - 1 {
			f.fill(e.Field(i), path)
		}
		ev := e.Interface().(mesh.Event)
		ev.Body = b.Interface().(mesh.Body)
		v.Set(reflect.ValueOf(&ev))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("w", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(f.n)
	case reflect.Uint8:
		v.SetUint(uint64(f.n % 250))
	case reflect.Float64:
		v.SetFloat(float64(f.n) / 3)
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(settable(v.Field(i)), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			f.fill(v.Index(i), path)
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), path)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(k, path)
			f.fill(e, path)
			v.SetMapIndex(k, e)
		}
	default:
		f.t.Fatalf("%s is a %v, which a checkpoint cannot have: say here and in coder how it is carried", path, v.Type())
	}
}

// settable is the field, also where only this package may set it.
func settable(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
}

// A field that is added to the state, or to anything in it, is in its checkpoint too.
func TestACheckpointCarriesEveryFieldOfAState(t *testing.T) {
	s := new(State)
	(&filler{t: t}).fill(reflect.ValueOf(s).Elem(), "State")
	s.execs, s.turns = map[mesh.ExecutionID]*Execution{}, nil // they are what order says
	for i, x := range s.order {
		if s.execs[x.ID] = x; i == 0 {
			x.Kind = mesh.KindTurn
			s.turns = append(s.turns, x)
		}
	}
	b, err := s.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Restore(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got, equal); diff != "" {
		t.Errorf("a checkpoint does not carry this: add it to State.code or what that calls, and raise checkpointFormat (-state +restored)\n%s", diff)
	}
}

// What executions share in a state, they share when it is restored.
func TestWhatIsSharedStaysSharedInACheckpoint(t *testing.T) {
	var s State
	for i, b := range []mesh.Body{
		mesh.TaskOpened{Execution: mesh.Execution{ID: "t", Kind: mesh.KindTurn}},
		mesh.DispatchIssued{Child: mesh.Execution{ID: "x", Parent: "t", Agent: "a", Kind: mesh.KindAgent}},
	} {
		s.Apply(&mesh.Event{Seq: mesh.Seq(i + 1), Execution: "t", Body: b})
	}
	b, err := s.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Restore(b)
	if err != nil {
		t.Fatal(err)
	}
	if got.talks["a"] == nil || got.talks["a"] != got.parts["x"] || got.talks["a"] != got.parts["t"] || got.execs["t"] != got.order[0] || got.turns[0] != got.order[0] {
		t.Errorf("it has %v and %v", got.talks, got.parts)
	}
}

// A checkpoint that is cut, changed or of another format is refused, and never half taken.
func TestADamagedCheckpointIsRefused(t *testing.T) {
	s := new(State)
	(&filler{t: t}).fill(reflect.ValueOf(s).Elem(), "State")
	b, err := s.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		changed := append([]byte(nil), b...)
		changed[i] ^= 0x20
		for _, damaged := range [][]byte{changed, b[:i]} {
			if _, err := Restore(damaged); !mesh.IsCode(err, mesh.Invalid) {
				t.Fatalf("at %d: %v", i, err)
			}
		}
	}
	// The checksum holds, and what is behind it is wrong.
	for i := 1; i < len(b)-4; i++ {
		c := &coder{buf: b[1:i:i], reads: true}
		if new(State).code(c); c.err == nil {
			t.Fatalf("of %d bytes %d are enough", len(b), i)
		}
	}
	if _, err := Restore(sealed([]byte{checkpointFormat + 1})); !mesh.IsCode(err, mesh.Invalid) || !strings.Contains(err.Error(), "format") {
		t.Errorf("another format: %v", err)
	}
}
