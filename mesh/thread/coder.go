package thread

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// A coder writes values one after the other, or reads them in the same order into zero ones:
// one function says for both what a type consists of. It changes nothing of what it writes,
// which others may be reading. After the first error it does nothing any more.
type coder struct {
	buf   []byte // written, or still to be read
	reads bool
	err   error
}

var errShort = errors.New("it ends too early, or has what cannot be there")

func (c *coder) fail(err error) {
	if c.err == nil {
		c.err, c.buf = err, nil
	}
}

// size is a number that is not negative; of what is read, at most as many as there are bytes.
func (c *coder) size(n int) int {
	if !c.reads {
		c.buf = binary.AppendUvarint(c.buf, uint64(n))
		return n
	}
	v, used := binary.Uvarint(c.buf)
	if used <= 0 || v > uint64(len(c.buf)) {
		c.fail(errShort)
		return 0
	}
	c.buf = c.buf[used:]
	return int(v)
}

// take returns the next n bytes.
func (c *coder) take(n int) []byte {
	if n > len(c.buf) {
		c.fail(errShort)
		return make([]byte, n)
	}
	b := c.buf[:n:n]
	c.buf = c.buf[n:]
	return b
}

func (c *coder) flag(p *bool) {
	n := 0
	if *p {
		n = 1
	}
	if number(c, &n); c.reads {
		*p = n == 1
	}
}

func (c *coder) float(p *float64) {
	if !c.reads {
		c.buf = binary.BigEndian.AppendUint64(c.buf, math.Float64bits(*p))
		return
	}
	*p = math.Float64frombits(binary.BigEndian.Uint64(c.take(8)))
}

// when is a time; what is read is in UTC.
func (c *coder) when(p *time.Time) {
	is := !p.IsZero()
	if c.flag(&is); !is {
		return
	}
	sec, nano := p.Unix(), int64(p.Nanosecond())
	number(c, &sec)
	number(c, &nano)
	if c.reads {
		*p = time.Unix(sec, nano).UTC()
	}
}

func (c *coder) message(p **a2apb.Message) {
	optional(c, p, func(m *a2apb.Message) {
		if !c.reads {
			b, err := (proto.MarshalOptions{Deterministic: true}).Marshal(m)
			if err != nil {
				c.fail(err)
			}
			c.size(len(b))
			c.buf = append(c.buf, b...)
			return
		}
		if err := proto.Unmarshal(c.take(c.size(0)), m); err != nil {
			c.fail(err)
		}
	})
}

// json is for values of any type, such as JSON has.
func (c *coder) json(p *map[string]any) {
	var text string
	if !c.reads {
		b, err := json.Marshal(*p)
		if err != nil {
			c.fail(err)
		}
		text = string(b)
	}
	if word(c, &text); c.reads {
		if err := json.Unmarshal([]byte(text), p); err != nil {
			c.fail(err)
		}
	}
}

func number[T ~int | ~int32 | ~int64 | ~uint8](c *coder, p *T) {
	if !c.reads {
		c.buf = binary.AppendVarint(c.buf, int64(*p))
		return
	}
	v, used := binary.Varint(c.buf)
	if used <= 0 || int64(T(v)) != v {
		c.fail(errShort)
		return
	}
	c.buf = c.buf[used:]
	*p = T(v)
}

func word[T ~string](c *coder, p *T) {
	n := c.size(len(*p))
	if !c.reads {
		c.buf = append(c.buf, *p...)
		return
	}
	*p = T(c.take(n))
}

// words are several.
func words[T ~string](c *coder, ps ...*T) {
	for _, p := range ps {
		word(c, p)
	}
}

// optional is what p points to, or nil.
func optional[T any](c *coder, p **T, of func(*T)) {
	is := *p != nil
	if c.flag(&is); !is {
		return
	}
	if c.reads {
		*p = new(T)
	}
	of(*p)
}

// list is a slice; nil is not the same as one with nothing in it.
func list[T any](c *coder, p *[]T, of func(*T)) {
	n := len(*p) + 1
	if *p == nil {
		n = 0
	}
	if n = c.size(n); c.reads && n > 0 {
		*p = make([]T, n-1)
	}
	for i := range *p {
		if c.err != nil {
			return
		}
		of(&(*p)[i])
	}
}

// dict is a map, in the order of its keys; nil is not the same as one with nothing in it.
func dict[K ~string, V any](c *coder, p *map[K]V, of func(*V)) {
	var keys []K
	if *p != nil && !c.reads {
		keys = slices.AppendSeq(make([]K, 0, len(*p)), maps.Keys(*p))
		slices.Sort(keys)
	}
	if list(c, &keys, func(k *K) { word(c, k) }); c.reads && keys != nil {
		*p = make(map[K]V, len(keys))
	}
	for _, k := range keys {
		v := (*p)[k]
		if of(&v); c.err != nil {
			return
		}
		if c.reads {
			(*p)[k] = v
		}
	}
}
