package main

import (
	"errors"
	"math"
	"math/rand"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// neverEnough trials in which the next item never started settle the matter.
	neverEnough = 3
	// phaseUs spreads the starts of the trials.
	phaseUs = 3000
	// fillLimit is how long blockers wait for each other to start.
	fillLimit = 5 * time.Second
)

type blockSample struct {
	// Per trial; null for never.
	LatenciesNs []*int64 `json:"latencies_ns"`
	Early       int      `json:"early"`
}

// trial is what the items of one trial share; see the benchmark's own description in
// bench_block.rs. One difference: the last blocker to start queues the next item, because the main
// goroutine, too, would need one of the Ps that the blockers hold.
type trial struct {
	burn, limit time.Duration
	toStart     atomic.Int64
	queued      atomic.Bool
	unfilled    atomic.Bool
	firstBlock  atomic.Int64
	nextStart   atomic.Int64
	released    uint32
	done        sync.WaitGroup
}

func (t *trial) blocker() {
	if t.toStart.Add(-1) == 0 {
		go t.next()
		t.queued.Store(true)
	}
	for start := time.Now(); !t.queued.Load(); {
		if time.Since(start) > fillLimit {
			t.unfilled.Store(true)
			break
		}
	}
	burn(t.burn)
	block := now()
	for first := t.firstBlock.Load(); block < first && !t.firstBlock.CompareAndSwap(first, block); {
		first = t.firstBlock.Load()
	}
	blockUntilReleased(&t.released, t.limit)
	t.done.Done()
}

func (t *trial) next() {
	t.nextStart.Store(now())
	release(&t.released)
	t.done.Done()
}

func block(j job) (any, error) {
	warmUp(j.cpus * 4)
	phases := rand.New(rand.NewSource(int64(j.seed)))
	sample := blockSample{LatenciesNs: []*int64{}}
	for i, never := 0, 0; i < j.count && never < neverEnough; i++ {
		time.Sleep(time.Duration(phases.Intn(phaseUs)) * time.Microsecond)
		t := &trial{burn: j.burn, limit: j.wait}
		t.toStart.Store(int64(j.cpus))
		t.firstBlock.Store(math.MaxInt64)
		t.done.Add(j.cpus + 1)
		for b := 0; b < j.cpus; b++ {
			go t.blocker()
		}
		t.done.Wait()
		if t.unfilled.Load() {
			return nil, errors.New("not all blockers ran at the same time: fewer workers than CPUs")
		}
		latency := t.nextStart.Load() - t.firstBlock.Load()
		switch {
		case latency < 0:
			sample.Early++
		case latency < int64(j.wait):
			sample.LatenciesNs = append(sample.LatenciesNs, &latency)
		default:
			sample.LatenciesNs = append(sample.LatenciesNs, nil)
			never++
		}
	}
	return sample, nil
}
