package main

import (
	"fmt"
	"math/bits"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// bucketNs: cycle ends are counted in portions of so much time.
const bucketNs = 10_000_000

type perfWqSample struct {
	MakespanNs int64  `json:"makespan_ns"`
	Cycles     uint64 `json:"cycles"`
	// Of all works, short, medium and long ones: median, 99th percentile and most.
	LateNs   [4]*[3]float64 `json:"late_ns"`
	Ended    []uint64       `json:"ended"`
	CpuNs    int64          `json:"cpu_ns"`
	Switches int64          `json:"switches"`
	// 0: the runtime's threads cannot be told from workers, so all of the process are counted.
	BaseThreads int `json:"base_threads"`
}

// work is one of the load's; see perf_wq.rs, whose random numbers it draws.
type work struct {
	length                   byte
	burn                     uint64
	sleepUs, pauseUs, cycles uint64
	state                    uint64
	due                      int64
	late, ended              []int64
}

// next is SplitMix64.
func (w *work) next() uint64 {
	w.state += 0x9e3779b97f4a7c15
	z := w.state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// upTo draws 0 to most, both included.
func (w *work) upTo(most uint64) uint64 {
	high, _ := bits.Mul64(w.next(), most+1)
	return high
}

// arm calls the work's next cycle when its pause has passed.
func (w *work) arm(done *sync.WaitGroup) {
	pause := time.Duration(w.upTo(2*w.pauseUs)) * time.Microsecond
	w.due = now() + int64(pause)
	time.AfterFunc(pause, func() { w.cycle(done) })
}

func (w *work) cycle(done *sync.WaitGroup) {
	w.late = append(w.late, max(0, now()-w.due))
	first := w.upTo(w.burn)
	sleep := time.Duration(w.upTo(2*w.sleepUs)) * time.Microsecond
	burn(time.Duration(first))
	sleepInKernel(sleep)
	burn(time.Duration(w.burn - first))
	w.ended = append(w.ended, now())
	if w.cycles--; w.cycles == 0 {
		done.Done()
		return
	}
	w.arm(done)
}

func parseWorks(text string) ([]*work, error) {
	var works []*work
	for _, one := range strings.Split(text, ",") {
		parts := strings.Split(one, ":")
		if len(parts) != 7 || len(parts[0]) != 1 {
			return nil, fmt.Errorf("not a work: %s", one)
		}
		var numbers [6]uint64
		for i, part := range parts[1:] {
			number, err := strconv.ParseUint(part, 10, 64)
			if err != nil {
				return nil, err
			}
			numbers[i] = number
		}
		works = append(works, &work{
			length: parts[0][0], burn: numbers[1], sleepUs: numbers[2], pauseUs: numbers[3],
			cycles: numbers[4], state: numbers[5],
		})
	}
	return works, nil
}

func usage() (cpuNs, switches int64) {
	var used syscall.Rusage
	// Fails only for a wrong argument.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Utime.Nano() + used.Stime.Nano(), used.Nvcsw + used.Nivcsw
}

func perfWq(j job) (any, error) {
	works, err := parseWorks(j.works)
	if err != nil {
		return nil, err
	}
	warmUp(j.cpus * 4)
	cpuBefore, switchesBefore := usage()
	var done sync.WaitGroup
	done.Add(len(works))
	start := now()
	for _, w := range works {
		w.arm(&done)
	}
	done.Wait()
	end := now()
	cpuAfter, switchesAfter := usage()
	sample := perfWqSample{
		MakespanNs: end - start, CpuNs: cpuAfter - cpuBefore, Switches: switchesAfter - switchesBefore,
		Ended: make([]uint64, (end-start)/bucketNs+1),
	}
	for i, lengths := range []string{"sml", "s", "m", "l"} {
		var late []int64
		for _, w := range works {
			if strings.IndexByte(lengths, w.length) >= 0 {
				late = append(late, w.late...)
			}
		}
		sample.LateNs[i] = percentiles(late)
	}
	for _, w := range works {
		sample.Cycles += uint64(len(w.ended))
		for _, at := range w.ended {
			sample.Ended[min((at-start)/bucketNs, int64(len(sample.Ended)-1))]++
		}
	}
	for i := 1; i < len(sample.Ended); i++ {
		sample.Ended[i] += sample.Ended[i-1]
	}
	return sample, nil
}

// percentiles are the median, the 99th and the largest, by nearest rank; nil of nothing.
func percentiles(values []int64) *[3]float64 {
	if len(values) == 0 {
		return nil
	}
	sort.Slice(values, func(a, b int) bool { return values[a] < values[b] })
	at := func(percent int) float64 {
		rank := (percent*len(values) + 99) / 100
		return float64(values[max(rank, 1)-1])
	}
	return &[3]float64{at(50), at(99), at(100)}
}
