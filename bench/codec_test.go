package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"
)

// TestMarshal holds the samples that are written by hand against encoding/json: every
// field of a sample, and text that looks like samples where there are none.
func TestMarshal(t *testing.T) {
	full := Sample{Round: 1}
	for i, v := 0, reflect.ValueOf(&full).Elem(); i < v.NumField(); i++ {
		if f := v.Field(i); f.Kind() == reflect.Float64 {
			f.SetFloat(float64(i) + 0.1)
		} else {
			f.SetInt(int64(i + 1))
		}
	}
	var numbers []Sample
	for i, x := range []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1e-6, 9.99e-7, 1e20, 1e21, -1e21, 5e-324, math.MaxFloat64, 1.0 / 3, 1 << 53} {
		numbers = append(numbers, Sample{Round: i, Value: x, Floor: x, Offset: -1})
	}
	const trap = `"samples":null`
	r := &Run{
		Schema: SchemaVersion, ID: "a", Time: time.Unix(1e9, 0).UTC(), Revision: Revision{Name: trap},
		Results: []Result{
			{Benchmark: trap, Program: trap, Measure: trap, Samples: []Sample{full}, Answer: trap},
			{Benchmark: "none", Measure: "latency"},
			{Benchmark: "empty", Measure: "latency", Samples: []Sample{}},
			{Benchmark: "numbers", Measure: "latency", Samples: numbers, Warnings: []string{trap}},
		},
		Warnings: []string{trap},
	}
	text, err := Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if !reflect.DeepEqual(got, r) {
		t.Errorf("read again as\n%+v\nwant\n%+v", got, r)
	}
	for i, s := range numbers {
		if got := got.Results[3].Samples[i].Value; math.Signbit(got) != math.Signbit(s.Value) {
			t.Errorf("sample %d lost its sign", i)
		}
	}
	r.Results = r.Results[:3]
	text, err = Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("written as\n%s\nwant\n%s", text, want)
	}
}

// BenchmarkMarshal writes a run of a quarter of a million samples.
func BenchmarkMarshal(b *testing.B) {
	r := &Run{Schema: SchemaVersion, ID: "a"}
	for i := range 1000 {
		samples := make([]Sample, 250)
		for j := range samples {
			samples[j] = Sample{Round: j, Value: float64(i*j) / 7, Offset: -1}
		}
		r.Results = append(r.Results, Result{Benchmark: string(rune('a'+i%26)) + string(rune('a'+i/26)), Measure: "latency", Samples: samples})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Marshal(r); err != nil {
			b.Fatal(err)
		}
	}
}
