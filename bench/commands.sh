#!/usr/bin/env bash
# `cmwq run`, which nobody sizes, against `xargs -P N` and GNU `parallel -j N` at each N, on five kinds of commands: some compute,
# some sleep, for a moment or for half a second, some read a disk, some do both. In each round all are timed once, one behind the
# other in a new random order, so what disturbs the machine disturbs all of them. Then, once each, where `perf` may record the scheduler, how many of the
# commands' processes are runnable. Some twenty-five minutes on two CPUs.
#
#   bench/commands.sh [ROUNDS] [COUNT]
#
# SIZES, KINDS, TOOLS: fewer of them. CMWQ: another command, in place of this tree's, which is built first. OUT: where the table goes, bench/report/commands.md unless said; "-": nowhere.
# BESIDE: what else the machine did, for the table's heading.
set -euo pipefail
here=$(dirname "$0")
. "$here/command"
rounds=${1:-5} count=${2:-64}
sizes=${SIZES:-1 2 3 4 8 16 32 64} kinds=${KINDS:-cpu nap wait disk mixed}
out=${OUT:-$here/report/commands.md}
read -r load _ </proc/loadavg
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Not tools of their own, so that all of them pay for the same shell: one for each command, also where the tool starts that itself.
cpu='i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'
nap='sleep 0.05'
wait='sleep 0.5'
disk="dd if=$folder/data of=/dev/null bs=64k count=32 iflag=direct skip=\$((\$\$ % 64)) status=none"
mixed='sleep 0.03; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'

"$cmwq" --version >/dev/null
dd if=/dev/zero of="$folder/data" bs=1M count=8 status=none
tools=${TOOLS:-xargs parallel}
if [[ $tools == *parallel* ]] && ! command -v parallel >/dev/null; then tools=xargs; echo "GNU parallel is not installed: without it" >&2; fi

# The tool may be run by another program.
with_xargs() { seq "$count" | "${by[@]}" xargs -P "$1" -I'{}' sh -c "$2"; }
with_parallel() { seq "$count" | PARALLEL_SHELL=$(command -v sh) "${by[@]}" parallel --will-cite -j "$1" -N0 "$2"; }
with_cmwq() { seq "$count" | "${by[@]}" "$cmwq" run -I'@@' -- sh -c "$2"; }
by=()

# KIND TOOL N: a line with what it was, its seconds and those of CPU time.
TIMEFORMAT='%R %U %S'
timed() {
    local took
    # What the one before leaves behind, ending processes above all, is not this one's.
    sleep 0.3
    took=$({ time "with_$2" "$3" "${!1}" </dev/null >/dev/null 2>"$folder/said"; } 2>&1) || {
        cat "$folder/said" >&2
        exit 1
    }
    echo "$1 $2 $3 $took" >>"$folder/times"
}

for ((round = 1; round <= rounds; round++)); do
    for kind in $kinds; do
        echo "round $round of $rounds: $kind ($((SECONDS)) s)" >&2
        mapfile -t turns < <({
            echo cmwq 0
            for tool in $tools; do printf "$tool %s\n" $sizes; done
        } | shuf)
        for turn in "${turns[@]}"; do timed "$kind" $turn; done
    done
done

# A line of the second table.
recorder=(perf record -q -a -e sched:sched_switch -e sched:sched_wakeup -e sched:sched_wakeup_new -m 4096 -o "$folder/record")
count_runnable() { # KIND TOOL N
    sleep 0.3
    by=("${recorder[@]}")
    "with_$2" "$3" "${!1}" </dev/null >/dev/null 2>"$folder/said"
    by=()
    printf '| %s | %s | %s | ' "$1" "$2" "$3"
    perf script -i "$folder/record" -F time,event,trace 2>/dev/null |
        awk -v cpus="$(nproc)" -v names='^(sh|sleep|dd)$' -f "$here/runnable.awk" | sed 's/$/ |/'
}
count_all_runnable() {
    "${recorder[@]}" true 2>/dev/null || { echo "perf may not record the scheduler here: not counted what is runnable" >&2; return 0; }
    for kind in $kinds; do
        count_runnable "$kind" cmwq -
        for size in $sizes; do count_runnable "$kind" xargs "$size"; done
    done
}

count_all_runnable >"$folder/runnable"

table() {
    echo "# \`cmwq run\` against the best size of others"
    echo
    echo "$(nproc) CPUs, Linux $(uname -r), load before $load, $(date -u +%Y-%m-%dT%H:%M:%SZ), commit $commit, $count commands, $rounds rounds in turn${BESIDE:+; $BESIDE}."
    echo "For each N, seconds of wall time, and of CPU time behind them, medians; then the best N by those, \`cmwq run\`, and how often as long"
    echo "it takes as that tool with its best N: the median of the same rounds' ratios, the least and the greatest. Each command is one \`sh\`."
    echo "Of GNU parallel's figures some 0.2 s are its own start, whatever the number of commands. It and \`cmwq run\` keep each"
    echo "command's output together; \`xargs\` lets all write at once, as \`cmwq run -u\` does. What is read lies on $(stat -f -c %T "$folder")."
    for tool in $tools; do echo "$("$tool" --version | head -n 1)."; done
    echo "Made by \`bench/commands.sh\`, which has the commands."
    echo
    awk -v whats="$kinds" -v tools="$tools" -v sizes="$sizes" -v rounds="$rounds" -f "$here/sizes.awk" "$folder/times"
    if [ -s "$folder/runnable" ]; then
        echo
        echo "How many processes of the commands could run at once, as the scheduler's events tell (\`perf\`): the most, for which part of the"
        echo "time in % there were more than CPUs, for how many ms without a break, and for how many seconds there were such processes at all."
        echo
        echo "| | | N | most | % above | ms at once | s |"
        echo "|---|---|---:|---:|---:|---:|---:|"
        cat "$folder/runnable"
    fi
}
table | if [ "$out" = - ]; then cat; else tee "$out"; fi
