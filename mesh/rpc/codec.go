package rpc

import (
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Encoded is a message with its wire bytes: a server of this package sends those as
// they are, and who receives into one over a connection of this package has those
// that came. Elsewhere it is the message alone, Wire is not read, or stays nil; streams
// in the process are given the message. Both are shared, and nobody changes them.
type Encoded struct {
	proto.Message
	Wire []byte
	// Decode, if it is not nil, reads the bytes that came into the message instead of
	// proto.Unmarshal, as that would.
	Decode func(wire []byte) error
}

// codec is gRPC's own for protobuf, and knows Encoded.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

// Marshal implements [encoding.CodecV2].
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if e, ok := v.(*Encoded); ok {
		return mem.BufferSlice{mem.SliceBuffer(e.Wire)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	e, ok := v.(*Encoded)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	e.Wire = data.Materialize()
	if e.Decode != nil {
		return e.Decode(e.Wire)
	}
	return proto.Unmarshal(e.Wire, e.Message)
}
