package packet

// MinFrame is the smallest frame in bytes: an Ethernet header, without which
// the kernel refuses a test run.
const MinFrame = 14

// MaxFrame is the largest frame in bytes.
const MaxFrame = 65535

// MaxPackets is the largest number of packets of one benchmark.
const MaxPackets = 65536

// BuiltIn is the set used where nobody gave packets.
func BuiltIn() [][]byte { return nil }
