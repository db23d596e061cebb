//go:build linux

package main

// A figure is something that the project promises or wants to know of itself.
type figure struct {
	name    string
	how     string // how it is measured
	measure func(*lab) ([]row, error)
	// itself tells that what is measured takes the host's lock itself.
	itself bool
}

// A row is one number of a figure. Everything but what and measured may be empty.
type row struct {
	what     string
	measured string
	beside   string // what it is compared with, measured in the same run
	ratio    string // measured against beside
	target   string
	met      verdict
}

// A verdict tells whether a row reached its target.
type verdict string

const (
	met    verdict = "met"
	missed verdict = "missed"
)

func meets(ok bool) verdict {
	if ok {
		return met
	}
	return missed
}

// figures is the table: what `make bench` prints, in this order.
var figures = []figure{
	{
		"rate",
		"Readings of 1000 runs each that one second gives, v4_lookup on one packet. Ours come in rounds, and the time " +
			"of loading both sides and the floor anew in every round counts against them. The others read one load again " +
			"and again. They take turns.",
		rate, false,
	},
	{
		"rounds",
		"30 rounds of a pair (v4_lookup twice): each loads both sides and takes 11 readings a side of 1000 runs. " +
			"Beside it the same with base and head attached to an interface in each round, which is how XDP without a " +
			"driver program has to be run.",
		rounds, false,
	},
	{
		"verdict",
		"From opened objects to the verdict of the default policy with a margin of 3%: session, static measures, " +
			"rounds and looks, without compiling. The identical pair is compiled under two licences, so that its digests " +
			"differ, its machine code does not, and only the measurement can pass it. Where the margin is 3% of net " +
			"alone, the policy's least effect (1 ns) is off.",
		verdicts, false,
	},
	{
		"encap",
		"A program that pushes 20 bytes in front of each packet and counts its answers in a map: repeats that it " +
			"answered XDP_TX, in ten rounds by the driver and in one plain test run of 5000 repeats.",
		encap, false,
	},
	{
		"insns",
		"Executed instructions of the four versions over 256 packets, what each line executes, calls and map operations, " +
			"in 20 sessions of other seeds, with a loop on every CPU all the while.",
		insns, false,
	},
	{
		"kernel",
		"The real command on the example, v2 against v3, with its three benchmarks of 256 packets and less: compiling, " +
			"Debian's kernel in an emulated CPU, from the snapshot that the first run took of it, measuring and the report. " +
			"Five times, of which the median, after that first one; one before it may fetch the kernel. Two kernels run side " +
			"by side.",
		kernel, true,
	},
	{
		"objects",
		"Programs of the objects that the packages install, each loaded by itself on this kernel without any config. " +
			"libbpf-tools carries its objects inside of its binaries. The target is held against what this kernel can load with " +
			"any loader: reasons that begin with `host` are not gate's.",
		objects, false,
	},
	{
		"verifier",
		"Time from start to end of gate verifier and of veristat, each a process that writes CSV, on all objects that " +
			"xdp-tools and libbpf-tools install, those inside of their binaries written to files. They take turns, the median " +
			"of five counts. gate looks at as many files at a time as there are CPUs, veristat at one. Numbers are compared " +
			"but for the verifier's time.",
		verifierSpeed, false,
	},
	{
		"error",
		"Standard deviation of the outcome of 20 A/A comparisons of 30 rounds each (v4_lookup/addresses), in % of a run. " +
			"Quiet and busy comparisons take turns: busy is with a loop on every CPU, in a session of its own, at the usual " +
			"priority. Three estimates of the same rounds; of 20 outcomes, a deviation is known to about a sixth.",
		standardError, false,
	},
	{
		"alarms",
		"200 A/A comparisons, every second one of v4_lookup/addresses (straight code) and of v3_fibonacci/worst (a tight " +
			"loop), each in a session of its own, with all planned looks: δ = 3% of net time, α = 0.01. Digests are left " +
			"out, so that nothing passes as unchanged. The one look is a two-sided signed-rank test of the first 30 " +
			"rounds against no difference at all.",
		falseAlarms, false,
	},
	{
		"macro",
		"Standard deviation of the outcome of 12 A/A comparisons of ten rounds on a veth pair (v4_lookup/veth, 5000 packets " +
			"a side and round; Hodges–Lehmann), in % of a run, beside the difference of two readings of fdinfo after one packet " +
			"each (and one before it, to warm up). Then the time from opened objects to the verdict of the default policy with a " +
			"margin of 5%, within 15 s; the twin is as above.",
		macro, false,
	},
	{
		"work",
		"Standard deviation of the outcome of 8 A/A comparisons of ten rounds of attached programs and real work " +
			"(Hodges–Lehmann), in % of a run: a program at a shared hook, which base and head measure at the same events, " +
			"and, beside it, the same with work of its own for each side.",
		attached, false,
	},
	{
		"traffic",
		"Packets a second that arrive at the other end of a veth pair, where a native XDP program drops them: one UDP frame " +
			"of 60 bytes, a million times, by one thread. The others run in the same namespaces, in turns, the best of three counts.",
		traffic, false,
	},
	{
		"top",
		"The real command, writing JSON for ten seconds, beside 500 programs with BTF, each of which runs ten times a " +
			"second: its user and system time (getrusage), as a share of one CPU.",
		top, true,
	},
	{
		"profile",
		"gate profile as a process: its user and system time (getrusage) as a share of all CPUs, at 99 Hz for a minute with a " +
			"loop on every CPU; what it loses of a busy program at 10 kHz in ten seconds; and the ten hottest functions of a " +
			"program, sampled at 999 Hz by it and by perf record at the same time.",
		profiler, true,
	},
	{
		"why",
		"The first line under `why:` of a report, as gate run takes and writes it. Of programs of mixed kinds (arithmetic, " +
			"conditions, loops, helpers, map operations, subprograms, lines that stand there many times) with one slowdown at a " +
			"random line, as many as fit into two minutes and at most 100: a loop, a larger bound, helper calls, a hash map in place of an " +
			"array, a chain of divisions, in turns; half of them with their functions in another order.",
		why, false,
	},
	{
		"html",
		"The page of a report on 1,000 comparisons: 500 noisy ones of 60 rounds, and as many exact ones with lines of the " +
			"source, each with a history of 40 stored runs. Written five times, median. Opened five times in Chromium without a " +
			"window, each time a new one: first paint and end of the script are the browser's own (Performance API), median.",
		pages, false,
	},
	{
		"import",
		"The real command, from a file of `go test -bench` in the page cache (2000 benchmarks with three units, again and again) " +
			"to a packed run in a file. The best time of three, and the most memory (getrusage). Files of all sizes make runs of " +
			"about one size, since of many samples every other one is left out: writing it is most of what a small file takes.",
		imports, true,
	},
	{
		"store",
		"The real command over 100,000 small runs of five branches on four testbeds, two benchmarks with two measures each: in " +
			"files, and in a server of S3's protocol that waits 20 ms before each answer. The best of three, once an index is " +
			"there; beside it the first time, which reads every run and makes it. The memory is the most that was used.",
		history, true,
	},
}
