//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/org/ebpf-bench-gate/bench"
	"github.com/org/ebpf-bench-gate/bpf"
	"github.com/org/ebpf-bench-gate/internal/work"
)

// worked is the lane of attached programs and real work.
type worked struct {
	*bpf.Attached
	*scene
}

// A scene is where a benchmark's work happens, set up.
type scene struct {
	run     *run
	b       bench.Benchmark
	place   *work.Place
	started []*work.Jail // of set-up, with what it left running
	worker  *worker
	// net and iface are what b.At says; nil and 0 on the host itself.
	net   *os.File
	iface int
}

// mistakes are those of a config, each once.
type mistakes []*bench.Diagnostic

func (m *mistakes) add(d *bench.Diagnostic) {
	if !slices.ContainsFunc(*m, func(o *bench.Diagnostic) bool { return o.Error() == d.Error() }) {
		*m = append(*m, d)
	}
}

func (m mistakes) err() error {
	var all []error
	for _, d := range m {
		all = append(all, d)
	}
	return errors.Join(all...)
}

// hooks looks where all programs hang that real work is to run, and returns what
// neither the config nor their sections say so that it could be understood.
func (r *run) hooks() error {
	var wrong mistakes
	for _, b := range r.Benchmarks {
		if b.Work == nil || b.Agent != nil {
			continue
		}
		for i := range r.Sides {
			for _, name := range append([]string{b.Program}, b.With...) {
				o, ok := r.Sides[i].find(name)
				if !ok {
					continue
				}
				var d *bench.Diagnostic
				if _, err := o.Hook(name); errors.As(err, &d) {
					wrong.add(d)
				}
			}
		}
	}
	return wrong.err()
}

// openWork makes the place, sets it up, prepares the programs, and does the work once
// of which nothing is kept.
func (r *run) openWork(ctx context.Context, b bench.Benchmark, sides []bpf.Side) (_ lane, err error) {
	inCgroup := false
	for _, s := range sides {
		for _, name := range append([]string{b.Program}, b.With...) {
			if !s.Object.Has(name) {
				continue
			}
			h, err := s.Object.Hook(name)
			if err != nil {
				return nil, err
			}
			inCgroup = inCgroup || h.Cgroup()
		}
	}
	scene, err := r.openScene(ctx, b, work.Options{Cgroup: inCgroup})
	if err != nil {
		return nil, err
	}
	l := &worked{scene: scene}
	place := bpf.Place{Cgroup: l.place.Cgroup(), Dir: r.Dir, Netns: l.net, Interface: l.iface}
	if l.Attached, err = r.session.Attached(b, place, l.worker, sides...); err != nil {
		l.Close()
		return nil, err
	}
	// The first times are cold, and show where the programs run.
	for range max(1, b.Warm) {
		if err := l.Census(); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// openScene makes a place, and sets it up.
func (r *run) openScene(ctx context.Context, b bench.Benchmark, o work.Options) (_ *scene, err error) {
	l := &scene{run: r, b: b}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	o.Dir, o.Links = r.Dir, b.Net
	for _, p := range b.Packets {
		o.MTU = max(o.MTU, len(p)-ethernetHeader)
	}
	if l.place, err = work.New(o); err != nil {
		return nil, err
	}
	if !o.Host {
		if l.net, _, l.iface, err = l.place.Interface(b.At); err != nil {
			return nil, &bench.Diagnostic{Pos: b.Pos, Message: "at: " + err.Error()}
		}
	}
	for _, c := range b.Setup {
		j, err := l.place.Ready(c.In, false)
		if err != nil {
			return nil, err
		}
		l.started = append(l.started, j)
		if _, err := j.Run(ctx, c.Run, bench.DefaultWithin, l.place.Env(c.In, -1)); err != nil {
			return nil, told(c.Pos, "setup", err)
		}
		if c.Port > 0 {
			if err := l.place.Listening(ctx, c.In, c.Port); err != nil {
				return nil, told(c.Pos, "setup", &work.Error{Command: c.Run, Err: err, Said: j.Said()})
			}
		}
	}
	if l.worker, err = newWorker(ctx, b, l.place); err != nil {
		return nil, err
	}
	return l, nil
}

const ethernetHeader = 14

// told is an error of something in the config. What a command has said is kept with
// its lines.
func told(pos bench.Pos, what string, err error) error {
	if w := (*work.Error)(nil); errors.As(err, &w) {
		return fmt.Errorf("%s: %s: %w", pos, what, err)
	}
	return &bench.Diagnostic{Pos: pos, Message: what + ": " + err.Error()}
}

func (l *worked) measures() []string {
	names := []string{bench.Latency, bench.Runs, bench.RecursionMisses}
	if !l.Together() {
		names = append(names, bench.Softirq)
	}
	for _, f := range l.b.Work.Figures {
		names = append(names, bench.Member(bench.Figures, f.Name))
	}
	return names
}

func (l *worked) declared(measure string) (unit string, better bench.Better) {
	for _, f := range l.b.Work.Figures {
		if bench.Member(bench.Figures, f.Name) == measure {
			return f.Unit, f.Better
		}
	}
	return "", ""
}

func (l *worked) describe() (bench.Kind, string, string, []string) {
	return bench.Macro, l.Path, "", l.Warnings
}

func (l *worked) round(n int) ([][]bench.Sample, error) {
	samples, err := l.Round(n)
	if err != nil {
		return nil, err
	}
	out := make([][]bench.Sample, len(samples))
	for i, s := range samples {
		out[i] = []bench.Sample{s.Latency, s.Runs, s.RecursionMisses}
		if s.Softirq != nil {
			out[i] = append(out[i], *s.Softirq)
		}
		out[i] = append(out[i], s.Figures...)
	}
	return out, nil
}

// Close ends the programs before what is around them.
func (l *worked) Close() {
	if l.Attached != nil {
		l.Attached.Close()
	}
	l.scene.Close()
}

// Close tears down what was set up, and lets the place go.
func (l *scene) Close() {
	if l.worker != nil {
		l.worker.close()
	}
	if l.place == nil {
		return
	}
	if l.started != nil || l.worker != nil {
		for _, c := range l.b.Teardown {
			if err := l.tearDown(c); err != nil {
				l.run.warn(told(c.Pos, "teardown", err).Error())
			}
		}
	}
	for _, j := range l.started {
		_ = j.Close()
	}
	if err := l.place.Close(); err != nil {
		l.run.warn(err.Error())
	}
	l.place = nil
}

// tearDown runs a command to its end, even where measuring was interrupted.
func (l *scene) tearDown(c bench.Command) error {
	j, err := l.place.Ready(c.In, false)
	if err != nil {
		return err
	}
	defer j.Close()
	_, err = j.Run(context.Background(), c.Run, bench.DefaultWithin, l.place.Env(c.In, -1))
	return err
}

// warn doubts the whole of head's run.
func (r *run) warn(text string) {
	head := r.runs[len(r.runs)-1]
	head.Warnings = append(head.Warnings, text)
}

// A worker does a benchmark's work.
type worker struct {
	ctx     context.Context
	b       bench.Benchmark
	place   *work.Place
	traffic *bpf.Traffic // nil: no packets
}

func newWorker(ctx context.Context, b bench.Benchmark, place *work.Place) (*worker, error) {
	w := &worker{ctx: ctx, b: b, place: place}
	if !b.Work.Packets {
		return w, nil
	}
	ns, err := place.Namespace(b.Work.In)
	if err != nil {
		return nil, err
	}
	iface, err := place.First(b.Work.In)
	if err != nil {
		return nil, err
	}
	w.traffic, err = bpf.NewTraffic(bpf.TrafficOptions{
		Netns: ns, Interface: iface, Packets: b.Packets, Count: b.Work.Count, Rate: b.Work.Rate, Duration: b.Work.Duration, Live: b.Work.Live,
	})
	if err != nil {
		return nil, &bench.Diagnostic{Pos: b.Work.Pos, Message: fmt.Sprintf("%s: %v", b.Name, err)}
	}
	return w, nil
}

func (w *worker) close() {
	if w.traffic != nil {
		w.traffic.Close()
	}
}

// Ready implements [bpf.Worker].
func (w *worker) Ready(round int) (bpf.Turn, error) {
	t := &turn{worker: w, round: round}
	if w.b.Work.Run == "" {
		return t, nil
	}
	var err error
	t.jail, err = w.place.Ready(w.b.Work.In, true)
	return t, err
}

// A turn is the work of one round, or of one side in it.
type turn struct {
	*worker
	round int
	jail  *work.Jail // nil: no command
}

// Do implements [bpf.Turn].
func (t *turn) Do() ([]float64, error) {
	w := t.b.Work
	switch {
	case t.traffic != nil:
		return nil, t.traffic.Send(t.ctx)
	case t.jail == nil:
		select {
		case <-t.ctx.Done():
			return nil, context.Cause(t.ctx)
		case <-time.After(w.Duration):
			return nil, nil
		}
	}
	within := w.Within
	if within == 0 {
		within = bench.DefaultWithin
	}
	out, err := t.jail.Run(t.ctx, w.Run, within, t.place.Env(w.In, t.round))
	if err != nil {
		return nil, told(w.Pos, "work", err)
	}
	var figures []float64
	for _, f := range w.Figures {
		v, err := work.Find(f, out)
		if err != nil {
			return nil, told(f.Pos, "work", &work.Error{Command: w.Run, Err: err, Said: t.jail.Said()})
		}
		figures = append(figures, v)
	}
	return figures, nil
}

// Close implements [bpf.Turn].
func (t *turn) Close() error {
	if t.jail == nil {
		return nil
	}
	return t.jail.Close()
}
