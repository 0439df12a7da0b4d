package main

import (
	"sync"
	"sync/atomic"
	"time"
)

type mixedSample struct {
	MakespanNs   int64 `json:"makespan_ns"`
	MaxComputing int64 `json:"max_computing"`
	CpuNs        int64 `json:"cpu_ns"`
	// 0: the runtime's threads cannot be told from workers, so all of the process are counted.
	BaseThreads int `json:"base_threads"`
}

func mixed(j job) (any, error) {
	wait := sleepInKernel
	if j.peer == "go-park" {
		wait = time.Sleep
	}
	var computing, most atomic.Int64
	item := func() {
		n := computing.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		burn(j.burn)
		computing.Add(-1)
		wait(j.wait)
	}
	warmUp(j.cpus * 4)

	var done sync.WaitGroup
	done.Add(j.count)
	start := time.Now()
	cpuBefore, _ := usage()
	for i := 0; i < j.count; i++ {
		go func() {
			item()
			done.Done()
		}()
	}
	done.Wait()
	took := time.Since(start).Nanoseconds()
	cpuAfter, _ := usage()
	return mixedSample{MakespanNs: took, MaxComputing: most.Load(), CpuNs: cpuAfter - cpuBefore}, nil
}

// warmUp runs a few empty items, so that no measurement includes the first thread start.
func warmUp(n int) {
	var done sync.WaitGroup
	done.Add(n)
	for i := 0; i < n; i++ {
		go done.Done()
	}
	done.Wait()
}
