package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

type itemsSample struct {
	NsPerItem float64 `json:"ns_per_item"`
}

// gate counts items down, as the benchmark's own does for the systems that run in its process.
type gate struct {
	left atomic.Int64
	zero chan struct{}
}

func newGate(n int) *gate {
	g := &gate{zero: make(chan struct{})}
	g.left.Store(int64(n))
	return g
}

func (g *gate) done() {
	if g.left.Add(-1) == 0 {
		close(g.zero)
	}
}

func items(j job) (any, error) {
	if _, err := timeItems(j, max(1, j.count/10)); err != nil {
		return nil, err
	}
	elapsed, err := timeItems(j, j.count)
	return itemsSample{float64(elapsed.Nanoseconds()) / float64(j.count)}, err
}

func timeItems(j job, count int) (time.Duration, error) {
	g := newGate(count)
	feed := func(n int) {
		for i := 0; i < n; i++ {
			go g.done()
		}
	}
	start := time.Now()
	switch j.producers {
	case "one":
		feed(count)
	case "many":
		for p := 0; p < j.cpus; p++ {
			share := count / j.cpus
			if p < count%j.cpus {
				share++
			}
			go feed(share)
		}
	case "inside":
		// The main goroutine is as much inside as any other; this one only is not the one that waits.
		go feed(count)
	default:
		return 0, fmt.Errorf("unknown kind of producer %q", j.producers)
	}
	<-g.zero
	return time.Since(start), nil
}
