package segment

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// A frame is a header, its records and an end byte. All numbers are little
// endian:
//
//	header  magic 4, size of the frame 4, count of records 4, number of the
//	        first 8, zeros 4, faint 4, checksum of these with the segment's salt
//	        4, headerEnd 1
//	record  length 4, flags 1, checksum of number, length, flags and bytes 4, bytes;
//	        the first of these are the hash, if the flags say so
//	end     frameEnd 1
//
// A disk writes a sector whole or not at all, and a page cache writes them in any
// order; so power that goes leaves some of the frame's chunks as they were, which
// is zeros, or all zeros from some byte on. To see that, the header counts the
// chunks that are zeros rightly, and faint ones, of which one changed bit makes
// zeros. The bytes at the ends of header and frame, and the first of the header,
// have two bits set at least.
//
// The salt is a random number of each segment: nobody who has something written
// can make bytes that pass for a frame in the middle of another one.
const (
	magic      = 0xF1A6_E5ED
	headerSize = 4 + 4 + 4 + 8 + 4 + 4 + 4 + 1
	headerEnd  = 0xE7
	frameEnd   = 0x5A
	headerSum  = headerSize - 5 // offset of the checksum
	recordSize = 4 + 1 + 4      // of a record's head
	chunk      = 512            // what a disk writes whole
	maxFrame   = 1 << 31
	kindMask   = 0x3F
	hashFlag   = 0x40
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A frame builds frames in one buffer, each in place of the one before.
type frame struct {
	buf     []byte
	offsets []uint32
}

func frameSize(recs []Record) int64 {
	n := int64(headerSize + 1)
	for i := range recs {
		n += recs[i].size()
	}
	return n
}

// size is how long the record is in a frame.
func (r Record) size() int64 { return recordSize + int64(len(r.Hash)+len(r.Data)) }

// build returns the frame for the place at that offset of a segment, and where
// its records are in the segment.
func (f *frame) build(salt uint32, first, at int64, recs []Record) ([]byte, []uint32) {
	b := append(f.buf[:0], make([]byte, headerSize)...)
	f.offsets = f.offsets[:0]
	for i, r := range recs {
		head := len(b)
		f.offsets = append(f.offsets, uint32(at)+uint32(head))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Hash)+len(r.Data)))
		if r.Hash != nil {
			r.Kind |= hashFlag
		}
		b = append(b, r.Kind, 0, 0, 0, 0)
		b = append(append(b, r.Hash...), r.Data...)
		binary.LittleEndian.PutUint32(b[head+5:], recordSum(first+int64(i), b[head:], b[head+recordSize:]))
	}
	b = append(b, frameEnd)
	le := binary.LittleEndian
	le.PutUint32(b, magic)
	le.PutUint32(b[4:], uint32(len(b)))
	le.PutUint32(b[8:], uint32(len(recs)))
	le.PutUint64(b[12:], uint64(first))
	b[headerSize-1] = headerEnd
	zeros, faint := weigh(b, at)
	le.PutUint32(b[20:], zeros)
	le.PutUint32(b[24:], faint)
	le.PutUint32(b[headerSum:], headerChecksum(salt, b))
	f.buf = b
	if cap(f.buf) > 8<<20 {
		f.buf = nil
	}
	return b, f.offsets
}

// recordSum is the checksum of a record with that head, of which it uses the
// length and the flags.
func recordSum(number int64, head, data []byte) uint32 {
	var b [13]byte
	binary.LittleEndian.PutUint64(b[:], uint64(number))
	copy(b[8:], head[:5])
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, data)
}

func headerChecksum(salt uint32, b []byte) uint32 {
	return crc32.Update(salt, castagnoli, b[:headerSum])
}

// A header is what the header of a frame says.
type header struct {
	size, count  int
	first        int64
	zeros, faint uint32
}

// readHeader returns false if no frame begins with b.
func readHeader(salt uint32, b []byte) (h header, ok bool) {
	le := binary.LittleEndian
	if len(b) < headerSize || le.Uint32(b) != magic || b[headerSize-1] != headerEnd ||
		le.Uint32(b[headerSum:]) != headerChecksum(salt, b) {
		return header{}, false
	}
	h = header{
		size: int(le.Uint32(b[4:])), count: int(le.Uint32(b[8:])), first: int64(le.Uint64(b[12:])),
		zeros: le.Uint32(b[20:]), faint: le.Uint32(b[24:]),
	}
	return h, h.size <= len(b) && h.size > headerSize
}

// readRecord returns the record at the beginning of b and its length there, 0 if it is
// longer than b; false if it is not what was written under that number.
func readRecord(number int64, b []byte) (r Record, size int, ok bool) {
	if len(b) < recordSize {
		return Record{}, 0, false
	}
	n := binary.LittleEndian.Uint32(b)
	if int64(n) > int64(len(b)-recordSize) {
		return Record{}, 0, false
	}
	size = recordSize + int(n)
	data := b[recordSize:size:size]
	ok = binary.LittleEndian.Uint32(b[5:]) == recordSum(number, b, data)
	r = Record{Kind: b[4] &^ hashFlag, Data: data}
	if b[4]&hashFlag != 0 {
		if len(data) < HashSize {
			return r, size, false
		}
		r.Hash, r.Data = data[:HashSize:HashSize], data[HashSize:]
	}
	return r, size, ok
}

// weigh counts the chunks of the file that the frame fills with zeros, and those
// in which it has one bit; b is the frame and at its place.
func weigh(b []byte, at int64) (zeros, faint uint32) {
	for len(b) > 0 {
		n := min(chunk-int(at%chunk), len(b))
		switch ones(b[:n]) {
		case 0:
			zeros++
		case 1:
			faint++
		}
		b, at = b[n:], at+int64(n)
	}
	return zeros, faint
}

// ones counts the bits of b up to two.
func ones(b []byte) (n int) {
	for ; len(b) >= 8 && n < 2; b = b[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b))
	}
	for ; len(b) > 0 && n < 2; b = b[1:] {
		n += bits.OnesCount8(b[0])
	}
	return min(n, 2)
}
