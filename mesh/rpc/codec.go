package rpc

import (
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Encoded is a message and what is known of it besides: who sends it over a connection
// of this package need not encode it, and who receives into one has the bytes that
// came. Elsewhere it is the message alone. A stream in the process is given the message
// and its Seq. All of it is shared, and nobody changes it.
type Encoded struct {
	proto.Message
	// Encode, if it is not nil, returns the bytes to send, or nil if they are not at
	// hand. It is called while the message is sent, and only if it is for a network.
	Encode func() []byte
	// Seq is the message's place in its log, or 0.
	Seq int64
	// Wire are the bytes that came.
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
		if e.Encode != nil {
			if wire := e.Encode(); wire != nil {
				return mem.BufferSlice{mem.SliceBuffer(wire)}, nil
			}
		}
		v = e.Message
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
