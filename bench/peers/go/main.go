// The Go peer of cmwq-bench: does one measurement and prints it as one line of JSON.
//
// It takes the same arguments as the benchmark's own children. `--peer go` makes blocking calls as
// system calls, as file access and cgo do; `--peer go-park` waits with time.Sleep, which parks the
// goroutine and blocks no thread.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"
)

// job is what one measurement is asked to do.
type job struct {
	peer      string
	producers string
	cpus      int
	count     int
	burn      time.Duration
	wait      time.Duration
	seed      uint64
	works     string
}

func main() {
	var j job
	bench := flag.String("bench", "", "mixed, block, items, roundtrip, delayed, idle or perf-wq")
	flag.StringVar(&j.peer, "peer", "go", "go or go-park")
	flag.StringVar(&j.producers, "producers", "one", "one, many or inside (items)")
	flag.IntVar(&j.cpus, "cpus", runtime.NumCPU(), "CPUs")
	flag.IntVar(&j.count, "count", 1, "items, trials or trips")
	burnUs := flag.Int64("burn-us", 0, "CPU time that an item burns")
	waitUs := flag.Int64("wait-us", 0, "how long an item blocks, or within which time all timers expire (delayed)")
	flag.Uint64Var(&j.seed, "seed", 0, "seed of the trials' phases (block)")
	flag.StringVar(&j.works, "works", "", "the works (perf-wq)")
	flag.Parse()
	j.burn = time.Duration(*burnUs) * time.Microsecond
	j.wait = time.Duration(*waitUs) * time.Microsecond
	dieWithParent()

	benches := map[string]func(job) (any, error){
		"mixed": mixed, "block": block, "items": items, "roundtrip": roundtrip,
		"delayed": delayed, "idle": idle, "perf-wq": perfWq,
	}
	run, known := benches[*bench]
	if !known {
		fail(fmt.Errorf("unknown benchmark %q", *bench))
	}
	sample, err := run(j)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(sample); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
