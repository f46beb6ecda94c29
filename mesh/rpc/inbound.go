package rpc

import (
	"bufio"
	"context"
	"encoding/binary"
	"net"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// inboundCredentials has connections counted that were made with other credentials.
type inboundCredentials struct {
	credentials.TransportCredentials
	calls *arrivals
}

func (c inboundCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return &inbound{Conn: conn, in: bufio.NewReaderSize(conn, inboundBuffer), of: c.calls, name: conn.RemoteAddr().String(),
		skip: len(http2.ClientPreface), calls: map[uint32]*arrival{}}, info, nil
}

func (c inboundCredentials) Clone() credentials.TransportCredentials {
	return inboundCredentials{c.TransportCredentials.Clone(), c.calls}
}

// cutPause is how long a connection is not read when a call of it was cut for what it
// sent, so that this is gone before more comes.
const cutPause = 20 * time.Millisecond

const (
	inboundBuffer = 8 << 10
	frameHeader   = 9 // bytes before each frame (RFC 9113 §4.1)
)

// An inbound is a connection to a server of gRPC, that counts what comes for each call.
// gRPC keeps all that comes for a call until its handler reads it, and says nothing of
// that before a message is whole. It must not read ahead (grpc.ReadBufferSize(0)): then the
// headers that were read last are those of the call that is in the tap.
type inbound struct {
	net.Conn
	in   *bufio.Reader
	of   *arrivals
	name string

	// Of the goroutine that reads, and calls the tap.
	header [frameHeader]byte
	have   int    // bytes of header
	skip   int    // bytes before the next header
	last   uint32 // the stream of the last headers

	// Guarded by of.mu.
	calls map[uint32]*arrival
	known bool // somebody proved who it is
	open  int  // calls of open methods
}

// Read implements [net.Conn].
func (c *inbound) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	for b := p[:n]; len(b) > 0; {
		if c.skip > 0 {
			passed := min(c.skip, len(b))
			c.skip -= passed
			b = b[passed:]
			continue
		}
		copied := copy(c.header[c.have:], b)
		b = b[copied:]
		if c.have += copied; c.have == frameHeader {
			c.have = 0
			c.frame()
		}
	}
	return n, err
}

// frame is called when the header of a frame has come, before what is in it.
func (c *inbound) frame() {
	head := binary.BigEndian.Uint32(c.header[:])
	c.skip = int(head >> 8)
	stream := binary.BigEndian.Uint32(c.header[5:]) &^ (1 << 31)
	switch http2.FrameType(head & 0xff) {
	case http2.FrameHeaders:
		c.last = stream
	case http2.FrameData:
		if !c.of.data(c, stream, c.skip) {
			time.Sleep(cutPause)
		}
	}
}

// RemoteAddr implements [net.Conn] by an address that knows its connection.
func (c *inbound) RemoteAddr() net.Addr { return inboundAddr{c.Conn.RemoteAddr(), c} }

type inboundAddr struct {
	net.Addr
	of *inbound
}

// inboundOf is the connection of a call in the tap; nil for none.
func inboundOf(ctx context.Context) *inbound {
	if p, ok := peer.FromContext(ctx); ok {
		if at, ok := p.Addr.(inboundAddr); ok {
			return at.of
		}
	}
	return nil
}
