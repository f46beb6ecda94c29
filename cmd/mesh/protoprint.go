package main

import (
	"bytes"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A protoPrinter writes messages and enums of proto3 as text, in another
// package. Options are left out: none changes the bytes or the JSON.
type protoPrinter struct {
	out      bytes.Buffer
	from, to protoreflect.FullName
}

func (p *protoPrinter) line(depth int, format string, args ...any) {
	p.out.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&p.out, format, args...)
	p.out.WriteByte('\n')
}

func (p *protoPrinter) enum(depth int, e protoreflect.EnumDescriptor) {
	p.out.WriteByte('\n')
	p.line(depth, "enum %s {", e.Name())
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		p.line(depth+1, "%s = %d;", v.Name(), v.Number())
	}
	p.line(depth, "}")
}

func (p *protoPrinter) message(depth int, m protoreflect.MessageDescriptor) {
	p.out.WriteByte('\n')
	p.line(depth, "message %s {", m.Name())
	p.reserved(depth+1, m)
	for i := range m.Enums().Len() {
		p.enum(depth+1, m.Enums().Get(i))
	}
	for i := range m.Messages().Len() {
		if nested := m.Messages().Get(i); !nested.IsMapEntry() {
			p.message(depth+1, nested)
		}
	}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		one := f.ContainingOneof()
		switch {
		case one == nil || one.IsSynthetic():
			p.line(depth+1, "%s%s", label(f), p.field(f))
		case one.Fields().Get(0) == f: // with all its fields
			p.line(depth+1, "oneof %s {", one.Name())
			for j := range one.Fields().Len() {
				p.line(depth+2, "%s", p.field(one.Fields().Get(j)))
			}
			p.line(depth+1, "}")
		}
	}
	p.line(depth, "}")
}

// reserved writes which numbers and names may not come back.
func (p *protoPrinter) reserved(depth int, m protoreflect.MessageDescriptor) {
	for i := range m.ReservedRanges().Len() {
		r := m.ReservedRanges().Get(i)
		p.line(depth, "reserved %d to %d;", r[0], r[1]-1)
	}
	for i := range m.ReservedNames().Len() {
		p.line(depth, "reserved %q;", m.ReservedNames().Get(i))
	}
}

func label(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsList():
		return "repeated "
	case f.HasOptionalKeyword():
		return "optional "
	}
	return ""
}

// field returns a field without its label.
func (p *protoPrinter) field(f protoreflect.FieldDescriptor) string {
	kind := p.kind(f)
	if f.IsMap() {
		kind = fmt.Sprintf("map<%s, %s>", p.kind(f.MapKey()), p.kind(f.MapValue()))
	}
	text := fmt.Sprintf("%s %s = %d", kind, f.Name(), f.Number())
	if f.JSONName() != jsonName(string(f.Name())) {
		text += fmt.Sprintf(" [json_name = %q]", f.JSONName())
	}
	return text + ";"
}

// kind returns the type of a field, or of a part of a map.
func (p *protoPrinter) kind(f protoreflect.FieldDescriptor) string {
	var of protoreflect.Descriptor
	switch {
	case f.Message() != nil:
		of = f.Message()
	case f.Enum() != nil:
		of = f.Enum()
	default:
		return f.Kind().String()
	}
	if of.ParentFile().Package() == p.from {
		return string(p.to) + strings.TrimPrefix(string(of.FullName()), string(p.from))
	}
	return "." + string(of.FullName())
}

// jsonName returns the name that protobuf gives a field in JSON by itself.
func jsonName(name string) string {
	var b strings.Builder
	upper := false
	for _, r := range name {
		switch {
		case r == '_':
			upper = true
		case upper && 'a' <= r && r <= 'z':
			b.WriteRune(r - 'a' + 'A')
			upper = false
		default:
			b.WriteRune(r)
			upper = false
		}
	}
	return b.String()
}
