package bench

import (
	"net/netip"
	"time"
)

// A Work is what sets off the runs of a program that hangs where the real ones
// do. Exactly one of Run, Packets and (without both) Duration says what it is.
type Work struct {
	Pos Pos
	// Run is a shell command.
	Run string
	// In is the namespace that Run runs in, or Packets are sent from; empty is
	// the first one of the first link.
	In string
	// Within ends Run with an error; 0 is [DefaultWithin].
	Within time.Duration
	// Packets tells that the benchmark's packets are sent through In's first
	// link: Count of them, or as many as go in Duration.
	Packets bool
	// Count is the number of packets; 0 is [DefaultVethCount], or Duration's.
	Count int
	// Rate is packets a second; 0 is as fast as they go.
	Rate float64
	// Live sends packets as XDP frames, by test runs of a program that redirects
	// them (BPF_F_TEST_XDP_LIVE_FRAMES, Linux 5.18), and not through a socket.
	Live bool
	// Duration is how long packets are sent, or, where there is neither Run nor
	// Packets, how long programs are watched.
	Duration time.Duration
	// Figures are what Run itself says that it achieved.
	Figures []Figure
}

// DefaultWithin is the time that a command of a config may take.
const DefaultWithin = time.Minute

// A Figure is a number in the output of a command, and a measure of its own.
type Figure struct {
	// Name is the member's of [Figures] that it is the measure of.
	Name   string
	Pos    Pos
	Unit   string // of one sample: "req/s", "bit/s", …
	Better Better
	// Match is a regular expression whose first group, or, where it has none, the
	// whole of it, is the number; the last match counts. JSON is a path into the
	// output, which is one JSON value: "end.sum_received.bits_per_second", with
	// numbers for the elements of lists. Exactly one is set.
	Match, JSON string
}

// A Command is a shell command of a config.
type Command struct {
	Pos Pos
	Run string
	In  string // namespace; empty: the first one of the first link
	// Port is waited for: until somebody listens on that TCP port in In. 0: none.
	Port int
}

// A Link is a veth pair between two namespaces.
type Link struct {
	Pos  Pos
	Ends [2]End
}

// An End is one end of a [Link]. In its namespace the interface has the name of
// the other end's.
type End struct {
	Namespace string
	Addr      netip.Prefix
}

// DefaultLinks are the namespaces of a benchmark that declares none. Their
// addresses are those of packets that say none, see docs/config.md.
func DefaultLinks() []Link {
	return []Link{{Ends: [2]End{
		{"client", netip.MustParsePrefix("192.0.2.1/32")},
		{"server", netip.MustParsePrefix("198.51.100.1/32")},
	}}}
}
