package main

import (
	"bytes"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

type idleSample struct {
	NsEach    float64 `json:"ns_each"`
	BytesEach float64 `json:"bytes_each"`
	Threads   float64 `json:"threads"`
}

// idle makes goroutines that run what comes through a channel of their own.
func idle(j job) (any, error) {
	var waiting atomic.Int64
	queues := make([]chan func(), 0, j.count)
	for i := 0; i < j.count; i++ {
		queues = append(queues, nil)
	}
	queues = queues[:0]
	makeOne := func() {
		queue := make(chan func())
		go func() {
			waiting.Add(1)
			for item := range queue {
				item()
			}
		}()
		queues = append(queues, queue)
	}
	settle := func() {
		for waiting.Load() < int64(len(queues)) {
			time.Sleep(100 * time.Microsecond)
		}
	}
	makeOne()
	settle()
	before, err := residentBytes()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	for i := 1; i < j.count; i++ {
		makeOne()
	}
	settle()
	elapsed := time.Since(start)
	after, err := residentBytes()
	if err != nil {
		return nil, err
	}
	threads, err := os.ReadDir("/proc/self/task")
	made := float64(max(1, j.count-1))
	return idleSample{
		NsEach:    float64(elapsed.Nanoseconds()) / made,
		BytesEach: float64(after-before) / made,
		Threads:   float64(len(threads)),
	}, err
}

func residentBytes() (int64, error) {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var size, resident int64
	_, err = fmt.Fscan(bytes.NewReader(statm), &size, &resident)
	return resident * int64(os.Getpagesize()), err
}
