package main

import (
	"math"
	"sort"
	"time"
)

// warmUpTrips are made before the ones that count.
const warmUpTrips = 500

type roundtripSample struct {
	P50Ns int64 `json:"p50_ns"`
	P99Ns int64 `json:"p99_ns"`
}

func roundtrip(j job) (any, error) {
	done := make(chan struct{})
	trips := make([]int64, 0, j.count)
	for i := 0; i < warmUpTrips+j.count; i++ {
		start := time.Now()
		go func() { done <- struct{}{} }()
		<-done
		if i >= warmUpTrips {
			trips = append(trips, time.Since(start).Nanoseconds())
		}
	}
	sort.Slice(trips, func(a, b int) bool { return trips[a] < trips[b] })
	// Nearest rank.
	at := func(percent float64) int64 {
		rank := int(math.Ceil(percent / 100 * float64(len(trips))))
		return trips[max(rank, 1)-1]
	}
	return roundtripSample{at(50), at(99)}, nil
}
