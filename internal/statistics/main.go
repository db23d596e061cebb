// Command statistics is the simulation study behind docs/statistics.md: it makes the
// tables there from recorded and from invented noise, the same ones from the same
// seed, and writes them between the comments that mark their places.
//
//	make statistics                   # all of it, some tens of minutes
//	statistics -suites 200 -trials 200 -only alarms
//	record layout | statistics -put layout -out docs/statistics.md
//
// The last one puts a table there that internal/record measured.
//
// The procedure that it simulates is gate's own; see suite.go.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	f := flag.NewFlagSet("statistics", flag.ContinueOnError)
	data := f.String("data", "internal/statistics/testdata", "read recorded noise from `DIR`")
	out := f.String("out", "", "replace the tables in this `FILE`; empty: print them")
	seed := f.Uint64("seed", 1, "of all random numbers")
	suites := f.Int("suites", 10_000, "suites of each false-alarm rate")
	trials := f.Int("trials", 4_000, "trials of each other rate")
	resamples := f.Int("resamples", 1_000, "resamples of each bootstrap")
	only := f.String("only", "", "only the table of this `NAME`")
	put := f.String("put", "", "put what stands on standard input into the place of the table of this `NAME`, and make none")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *put != "" {
		return putTable(*out, *put, os.Stdin)
	}
	real, err := recorded(*data)
	if err != nil {
		return err
	}
	s := study{noises: append(real, synthetic()...), seed: *seed, suites: *suites, trials: *trials}
	doc := ""
	if *out != "" {
		b, err := os.ReadFile(*out)
		if err != nil {
			return err
		}
		doc = string(b)
	}
	for _, t := range []struct {
		name string
		make func() string
	}{
		{"alarms", s.falseAlarms},
		{"power", s.power},
		{"passes", s.passes},
		{"fixed", func() string { return s.fixed(*resamples) }},
		{"stopped", s.stopped},
		{"orders", s.orders},
		{"peers", func() string { return s.compared(*resamples) }},
	} {
		if *only != "" && t.name != *only {
			continue
		}
		start := time.Now()
		table := fmt.Sprintf("%s\n*Seed %d; %d suites for false alarms, %d trials elsewhere, %d resamples.*\n", t.make(), *seed, *suites, *trials, *resamples)
		fmt.Fprintf(os.Stderr, "%s: %v\n", t.name, time.Since(start).Round(time.Second))
		if *out == "" {
			fmt.Printf("%s\n\n%s\n", t.name, table)
			continue
		}
		if doc, err = replace(doc, t.name, table); err != nil {
			return fmt.Errorf("%s: %w", *out, err)
		}
		if err := os.WriteFile(*out, []byte(doc), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// putTable puts a finished table into a file; none, where what made it failed, is an
// error.
func putTable(file, name string, from io.Reader) error {
	table, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(table), "| ") {
		return fmt.Errorf("standard input has no table")
	}
	doc, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := replace(string(doc), name, string(table))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}

// replace puts a table between <!-- table NAME --> and <!-- end -->.
func replace(doc, name, table string) (string, error) {
	start := "<!-- table " + name + " -->\n"
	head, rest, ok := strings.Cut(doc, start)
	_, tail, ok2 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 {
		return "", fmt.Errorf("no place for the table %s", name)
	}
	return head + start + table + "<!-- end -->" + tail, nil
}
