package vm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame is one message, of the guest's but for one kind:
//
//	byte 0      kind
//	bytes 1-4   length of the payload, big endian
//	bytes 5-8   CRC-32 (IEEE) of kind and payload, big endian
//	then        the payload
type frame struct {
	kind    kind
	payload []byte
}

type kind byte

// The kinds. After result or failure the guest says no more.
const (
	progress kind = 'p' // what it begins to do, in a few words
	output   kind = 'o' // bytes of a program's output
	result   kind = 'r' // what it was started for
	failure  kind = 'f' // why there is no result
	asking   kind = 'a' // where in memory it waits for its files; stands still behind it
	given    kind = 'h' // those files: the one message that is the host's
)

const (
	frameHeader = 9
	maxText     = 4096 // bytes of progress and failure
	maxOutput   = 1 << 16
)

// most is how long a payload may be.
func (k kind) most(maxResult int) (int, bool) {
	switch k {
	case progress, failure:
		return maxText, true
	case output:
		return maxOutput, true
	case asking:
		return maxOutput, true
	case result, given:
		return maxResult, true
	}
	return 0, false
}

// errNoise is that the guest's port carries something that is no frame.
var errNoise = errors.New("the guest says what is no message")

func writeFrame(w io.Writer, f frame) error {
	head := make([]byte, frameHeader, frameHeader+len(f.payload))
	head[0] = byte(f.kind)
	binary.BigEndian.PutUint32(head[1:], uint32(len(f.payload)))
	binary.BigEndian.PutUint32(head[5:], f.sum())
	_, err := w.Write(append(head, f.payload...))
	return err
}

func (f frame) sum() uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte{byte(f.kind)}), crc32.IEEETable, f.payload)
}

// readFrame reads one frame, and no more of it into memory than its kind may have.
// io.EOF is that the guest ended between two.
func readFrame(r *bufio.Reader, maxResult int) (frame, error) {
	var head [frameHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: kind(head[0])}
	most, known := f.kind.most(maxResult)
	n := int64(binary.BigEndian.Uint32(head[1:]))
	switch {
	case !known:
		return frame{}, errNoise
	case n > int64(most):
		return frame{}, fmt.Errorf("the guest sends %d bytes at once, at most %d are read", n, most)
	}
	f.payload = make([]byte, n)
	if _, err := io.ReadFull(r, f.payload); err != nil {
		return frame{}, io.ErrUnexpectedEOF
	}
	if f.sum() != binary.BigEndian.Uint32(head[5:]) {
		return frame{}, errNoise
	}
	return f, nil
}
