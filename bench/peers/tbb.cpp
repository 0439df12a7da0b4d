// The oneTBB peer of cmwq-bench: does one measurement and prints it as one line of JSON.
//
// It takes the same arguments as the benchmark's own children. Items from outside go through
// task_arena::enqueue, the documented way for threads that do not join the arena; items from inside
// through task_group::run. By default an arena has one worker less than there are CPUs, because it
// expects the caller to take part; callers here do not, so the limit is raised and no slot is
// reserved for them: one worker per CPU, as all the other pools have.

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/version.h>

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace tbb = oneapi::tbb;

// ---- System calls -------------------------------------------------------------------------------

int64_t clock_ns(clockid_t id) {
    timespec ts{};
    clock_gettime(id, &ts);
    return ts.tv_sec * 1'000'000'000LL + ts.tv_nsec;
}

int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

timespec to_timespec(int64_t ns) {
    return {ns / 1'000'000'000, static_cast<long>(ns % 1'000'000'000)};
}

// Burns CPU time of the calling thread.
void burn(int64_t ns) {
    const int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
    }
}

void sleep_in_kernel(int64_t ns) {
    timespec left = to_timespec(ns);
    while (nanosleep(&left, &left) != 0) {
    }
}

void block_until_released(std::atomic<uint32_t>& word, int64_t limit_ns) {
    const int64_t end = now_ns() + limit_ns;
    while (word.load() == 0) {
        const int64_t left = end - now_ns();
        if (left <= 0) return;
        const timespec ts = to_timespec(left);
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &ts, nullptr, 0);
    }
}

void release(std::atomic<uint32_t>& word) {
    word.store(1);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1 << 30, nullptr, nullptr, 0);
}

template <class T>
void fetch_max(std::atomic<T>& max, T value) {
    for (T seen = max.load(); value > seen && !max.compare_exchange_weak(seen, value);) {
    }
}

template <class T>
void fetch_min(std::atomic<T>& min, T value) {
    for (T seen = min.load(); value < seen && !min.compare_exchange_weak(seen, value);) {
    }
}

// Counts items down; one thread waits, asleep, for zero.
class Gate {
public:
    explicit Gate(int64_t items) : left_(items) {}
    void done() {
        if (left_.fetch_sub(1) == 1) release(zero_);
    }
    void wait() {
        while (left_.load() != 0) block_until_released(zero_, INT64_C(1'000'000'000));
    }

private:
    std::atomic<int64_t> left_;
    std::atomic<uint32_t> zero_{0};
};

// ---- The job ------------------------------------------------------------------------------------

struct Job {
    std::string bench, producers = "one";
    int cpus = 1;
    // Workers of the arena.
    int size = 1;
    int64_t count = 1, burn_ns = 0, wait_ns = 0;
    uint64_t seed = 0;
};

[[noreturn]] void fail(const std::string& message) {
    std::fprintf(stderr, "%s\n", message.c_str());
    std::exit(1);
}

Job parse(int argc, char** argv) {
    std::map<std::string, std::string> given;
    for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
    Job job;
    job.bench = given["--bench"];
    job.producers = given["--producers"];
    job.cpus = std::stoi(given["--cpus"]);
    job.size = given.count("--size") ? std::stoi(given["--size"]) : job.cpus;
    job.count = std::stoll(given["--count"]);
    job.burn_ns = std::stoll(given["--burn-us"]) * 1000;
    job.wait_ns = std::stoll(given["--wait-us"]) * 1000;
    job.seed = std::stoull(given["--seed"]);
    return job;
}

class Pool {
public:
    explicit Pool(int workers)
        : limit_(tbb::global_control::max_allowed_parallelism, workers + 1),
          arena_(workers, /*reserved_for_masters=*/0) {
        Gate gate(workers * 4);
        for (int i = 0; i < workers * 4; ++i) enqueue([&] { gate.done(); });
        gate.wait();
    }
    template <class F>
    void enqueue(F&& item) {
        arena_.enqueue(std::forward<F>(item));
    }

private:
    tbb::global_control limit_;
    tbb::task_arena arena_;
};

// ---- The benchmarks -----------------------------------------------------------------------------

void mixed(const Job& job) {
    Pool pool(job.size);
    std::atomic<int64_t> computing{0}, most{0};
    Gate gate(job.count);
    const int64_t start = now_ns(), cpu_before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t i = 0; i < job.count; ++i) {
        pool.enqueue([&] {
            fetch_max(most, computing.fetch_add(1) + 1);
            burn(job.burn_ns);
            computing.fetch_sub(1);
            sleep_in_kernel(job.wait_ns);
            gate.done();
        });
    }
    gate.wait();
    const int64_t took = now_ns() - start, cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
    // The only thread before the pool was made is this one.
    std::printf("{\"makespan_ns\":%lld,\"max_computing\":%lld,\"cpu_ns\":%lld,\"base_threads\":1}\n",
                static_cast<long long>(took), static_cast<long long>(most.load()),
                static_cast<long long>(cpu));
}

// How long blockers wait for each other to start.
constexpr int64_t fill_limit_ns = 5'000'000'000;

// What the items of one trial share; see the benchmark's own description in bench_block.rs.
struct Trial {
    explicit Trial(const Job& job) : job(job), started(job.cpus), ended(job.cpus + 1) {}

    void blocker() {
        started.done();
        for (const int64_t start = now_ns(); !queued.load();) {
            if (now_ns() - start > fill_limit_ns) {
                unfilled.store(true);
                break;
            }
        }
        burn(job.burn_ns);
        const int64_t block = now_ns();
        fetch_min(first_block, block);
        block_until_released(released, job.wait_ns);
        ended.done();
    }

    void next() {
        next_start.store(now_ns());
        release(released);
        ended.done();
    }

    const Job& job;
    std::atomic<bool> queued{false}, unfilled{false};
    std::atomic<int64_t> first_block{INT64_MAX}, next_start{0};
    std::atomic<uint32_t> released{0};
    Gate started, ended;
};

void block(const Job& job) {
    constexpr int never_enough = 3;
    Pool pool(job.cpus);
    std::mt19937_64 phases(job.seed);
    std::string latencies;
    int early = 0, never = 0;
    // Kept to the end: an item may still be on its last instruction when a gate opens.
    std::vector<std::unique_ptr<Trial>> trials;
    for (int64_t i = 0; i < job.count && never < never_enough; ++i) {
        sleep_in_kernel(static_cast<int64_t>(phases() % 3000) * 1000);
        trials.push_back(std::make_unique<Trial>(job));
        Trial& trial = *trials.back();
        for (int b = 0; b < job.cpus; ++b) pool.enqueue([&] { trial.blocker(); });
        trial.started.wait();
        pool.enqueue([&] { trial.next(); });
        trial.queued.store(true);
        trial.ended.wait();
        if (trial.unfilled.load()) {
            fail("not all blockers ran at the same time: fewer workers than CPUs");
        }
        const int64_t latency = trial.next_start.load() - trial.first_block.load();
        if (latency < 0) {
            ++early;
            continue;
        }
        const bool after = latency < job.wait_ns;
        never += after ? 0 : 1;
        latencies += latencies.empty() ? "" : ",";
        latencies += after ? std::to_string(latency) : "null";
    }
    std::printf("{\"latencies_ns\":[%s],\"early\":%d}\n", latencies.c_str(), early);
    std::fflush(stdout);
    std::_Exit(0);
}

int64_t time_items(Pool& pool, const Job& job, int64_t count) {
    // Lives on: an item may still be on its last instruction when the gate opens.
    Gate& gate = *new Gate(count);
    const auto feed = [&](int64_t n) {
        for (int64_t i = 0; i < n; ++i) pool.enqueue([&gate] { gate.done(); });
    };
    const int64_t start = now_ns();
    if (job.producers == "one") {
        feed(count);
        gate.wait();
    } else if (job.producers == "many") {
        std::vector<std::thread> producers;
        std::barrier ready(job.cpus);
        // Stamped by the producers: this thread may get a CPU only long after they began.
        std::atomic<int64_t> began{INT64_MAX};
        for (int p = 0; p < job.cpus; ++p) {
            producers.emplace_back([&, share = count / job.cpus + (p < count % job.cpus ? 1 : 0)] {
                ready.arrive_and_wait();
                const int64_t now = now_ns();
                int64_t least = began.load();
                while (now < least && !began.compare_exchange_weak(least, now)) {
                }
                feed(share);
            });
        }
        gate.wait();
        const int64_t elapsed = now_ns() - began.load();
        for (auto& producer : producers) producer.join();
        return elapsed;
    } else if (job.producers == "inside") {
        pool.enqueue([&gate, count] {
            tbb::task_group group;
            for (int64_t i = 0; i < count; ++i) group.run([&gate] { gate.done(); });
            group.wait();
        });
        gate.wait();
    } else {
        fail("unknown kind of producer " + job.producers);
    }
    return now_ns() - start;
}

void items(const Job& job) {
    Pool pool(job.cpus);
    time_items(pool, job, std::max<int64_t>(1, job.count / 10));
    const auto elapsed = static_cast<double>(time_items(pool, job, job.count));
    std::printf("{\"ns_per_item\":%.2f}\n", elapsed / static_cast<double>(job.count));
}

void roundtrip(const Job& job) {
    constexpr int64_t warm_up = 500;
    Pool pool(job.cpus);
    std::atomic<uint32_t> done{0};
    std::vector<int64_t> trips;
    for (int64_t i = 0; i < warm_up + job.count; ++i) {
        const int64_t start = now_ns();
        done.store(0);
        pool.enqueue([&] { release(done); });
        block_until_released(done, INT64_C(60'000'000'000));
        if (i >= warm_up) trips.push_back(now_ns() - start);
    }
    std::sort(trips.begin(), trips.end());
    // Nearest rank.
    const auto at = [&](double percent) {
        const double rank = std::ceil(percent / 100 * static_cast<double>(trips.size()));
        return static_cast<long long>(trips.at(static_cast<size_t>(std::max(rank, 1.0)) - 1));
    };
    std::printf("{\"p50_ns\":%lld,\"p99_ns\":%lld}\n", at(50), at(99));
}

}  // namespace

int main(int argc, char** argv) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc == 2 && std::string(argv[1]) == "--version") {
        std::puts(TBB_VERSION_STRING);
        return 0;
    }
    const Job job = parse(argc, argv);
    const std::map<std::string, void (*)(const Job&)> benches = {
        {"mixed", mixed}, {"block", block}, {"items", items}, {"roundtrip", roundtrip}};
    const auto bench = benches.find(job.bench);
    if (bench == benches.end()) fail("unknown benchmark " + job.bench);
    bench->second(job);
    std::fflush(stdout);
    // Not by returning: nothing is measured any more, and destructors of the scheduler only take
    // time.
    std::_Exit(0);
}
