package main

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"sync/atomic"
	"time"
)

type delayedSample struct {
	ArmNs            float64    `json:"arm_ns"`
	CancelNs         float64    `json:"cancel_ns"`
	CancelShuffledNs float64    `json:"cancel_shuffled_ns"`
	LateNs           [3]float64 `json:"late_ns"`
}

// delayed makes each timer once, with time.AfterFunc, and arms it again with Reset: Go's equivalent
// of an item made beforehand.
func delayed(j job) (any, error) {
	rng := rand.New(rand.NewPCG(j.seed, 0))
	due, late := make([]int64, j.count), make([]int64, j.count)
	warmUp := j.count / 10
	g := newGate(warmUp + j.count)
	var early atomic.Int64
	timers := make([]*time.Timer, j.count)
	far := make([]time.Duration, j.count)
	order := make([]int, j.count)
	for i := range timers {
		far[i] = 10*time.Second + time.Duration(rng.Int64N(int64(990*time.Second)))
		order[i] = i
		timers[i] = time.AfterFunc(time.Hour, func() {
			late[i] = now() - due[i]
			if late[i] < 0 {
				early.Add(1)
			}
			g.done()
		})
		timers[i].Stop()
	}
	arm := func() float64 {
		start := time.Now()
		for i, delay := range far {
			timers[i].Reset(delay)
		}
		return float64(time.Since(start).Nanoseconds()) / float64(j.count)
	}
	cancel := func() float64 {
		start := time.Now()
		for _, i := range order {
			timers[i].Stop()
		}
		return float64(time.Since(start).Nanoseconds()) / float64(j.count)
	}
	arm()
	cancel()
	sample := delayedSample{ArmNs: arm(), CancelNs: cancel()}
	rng.Shuffle(j.count, func(a, b int) { order[a], order[b] = order[b], order[a] })
	arm()
	sample.CancelShuffledNs = cancel()

	fire := func(items int, window time.Duration) {
		for i, timer := range timers[:items] {
			delay := 1 + rng.Int64N(max(1, int64(window)))
			due[i] = now() + delay
			timer.Reset(time.Duration(delay))
		}
	}
	fire(warmUp, j.wait/10)
	for g.left.Load() > int64(j.count) {
		time.Sleep(time.Millisecond)
	}
	fire(j.count, j.wait)
	<-g.zero
	if n := early.Load(); n != 0 {
		return nil, fmt.Errorf("%d of %d items ran before they were due", n, j.count)
	}
	sort.Slice(late, func(a, b int) bool { return late[a] < late[b] })
	for i, rank := range [3]float64{0.5, 0.99, 1} {
		sample.LateNs[i] = float64(late[int(rank*float64(j.count-1))])
	}
	return sample, nil
}
