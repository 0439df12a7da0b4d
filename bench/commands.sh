#!/usr/bin/env bash
# Wall time of `cmwq run` against xargs -P N and GNU parallel -j N, each N, on four kinds of commands. All are timed once in each
# round, one behind the other, and the median of the rounds is printed, with the best N of each.
#
#   cargo build --release -p cmwq-cli && bench/commands.sh [ROUNDS] [COUNT]
set -euo pipefail
cmwq=${CMWQ:-$(dirname "$0")/../target/release/cmwq}
rounds=${1:-5} count=${2:-64} sizes=${SIZES:-1 2 4 8 16 32 64}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Not a tool of its own, so that all of them pay for the same shell.
cpu='i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done'
nap='sleep 0.1'
disk="dd if=$folder/data of=/dev/null bs=64k count=16 iflag=direct skip=\$((RANDOM % 64)) status=none"
mixed='sleep 0.05; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'
dd if=/dev/zero of="$folder/data" bs=1M count=8 status=none

# NAME COMMAND...: seconds, into a file by the name.
timed() {
    local name=$1 begin
    shift
    begin=$EPOCHREALTIME
    "$@" </dev/null >/dev/null
    echo "$EPOCHREALTIME $begin" | awk '{ print $1 - $2 }' >>"$folder/$name"
}
through_xargs() { seq "$count" | xargs -P "$1" -I'{}' bash -c "$2"; }
through_parallel() { parallel --will-cite -j "$1" -N0 bash -c "$(printf %q "$2")" ::: $(seq "$count"); }
through_cmwq() { seq "$count" | "$cmwq" run -I'@@' -- bash -c "$1"; }
median() { sort -n "$folder/$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
spread() { sort -n "$folder/$1" | awk 'NR == 1 { low = $1 } { high = $1 } END { printf "%.2f to %.2f", low, high }'; }

for kind in cpu nap disk mixed; do
    for ((round = 0; round < rounds; round++)); do
        timed "$kind.cmwq" through_cmwq "${!kind}"
        for size in $sizes; do
            timed "$kind.xargs.$size" through_xargs "$size" "${!kind}"
            if command -v parallel >/dev/null; then
                timed "$kind.parallel.$size" through_parallel "$size" "${!kind}"
            fi
        done
    done
    printf '%-6s cmwq run %.2f s (%s)\n' "$kind" "$(median "$kind.cmwq")" "$(spread "$kind.cmwq")"
    for tool in xargs parallel; do
        for size in $sizes; do
            [ -e "$folder/$kind.$tool.$size" ] || continue
            echo "$(median "$kind.$tool.$size") $size"
        done | sort -n | awk -v tool=$tool -v own="$(median "$kind.cmwq")" '
            NR == 1 { best = $1; at = $2 }
            { all = all sprintf("  %s: %.2f", $2, $1) }
            END { if (NR) printf "       %-8s best with %s: %.2f s, cmwq takes %.2f of it;%s\n", tool, at, best, own / best, all }'
    done
done
