#!/usr/bin/env bash
# Real builds whose jobs `cmwq run --jobserver` sizes, against each -j: libgit2 by make and by ninja, and this workspace's library by
# cargo. In each round every build is made once at each size, one behind the other in a new random order, each from nothing. Some
# twenty minutes on two CPUs.
#
#   bench/builds.sh [ROUNDS]
#
# Needs cmake, a C compiler, and ninja since 1.13 (an older one is no client of a jobserver: that build is left out); cargo fetches
# libgit2's source, which a crate's archive has. SIZES: others than 1 2 3 4. CMWQ: another command, in place of this tree's, which is
# built first. OUT: where the table goes, bench/report/builds.md unless said; "-": nowhere. BESIDE: what else the machine did, for
# the table's heading.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/bench/command"
rounds=${1:-7} sizes=${SIZES:-1 2 3 4} out=${OUT:-$root/bench/report/builds.md}
read -r load _ </proc/loadavg
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cmwq" --version >/dev/null

builds="make cargo"
newest=$(printf '%s\n' 1.13 "$(ninja --version 2>/dev/null || echo 0)" | sort -V | tail -n 1)
if [ "$newest" = 1.13 ]; then echo "no ninja since 1.13: without it" >&2; else builds="make ninja cargo"; fi

mkdir -p "$folder/fetch/src"
: >"$folder/fetch/src/lib.rs"
cat >"$folder/fetch/Cargo.toml" <<'END'
[package]
name = "fetch"
version = "0.0.0"
[dependencies]
libgit2-sys = { version = "=0.18.2", default-features = false }
[workspace]
END
echo "fetching libgit2" >&2
(cd "$folder/fetch" && cargo vendor --quiet vendor >/dev/null)
source=$folder/fetch/vendor/libgit2-sys/libgit2

configure() {
    cmake -S "$source" -B "$folder/$1" -G "$2" -DCMAKE_BUILD_TYPE=Debug -DBUILD_TESTS=OFF -DBUILD_CLI=OFF -DUSE_HTTPS=OFF \
        -DUSE_SSH=OFF -DUSE_BUNDLED_ZLIB=ON -DREGEX_BACKEND=builtin >"$folder/said"
}
configure make "Unix Makefiles" || { cat "$folder/said" >&2; exit 1; }
case $builds in *ninja*) configure ninja Ninja ;; esac
(cd "$root" && cargo fetch --quiet --locked)

# As BUILD_clean and BUILD_with [-j N].
make_clean() { make -C "$folder/make" clean >/dev/null; }
make_with() { run make -C "$folder/make" "$@"; }
ninja_clean() { ninja -C "$folder/ninja" -t clean >/dev/null; }
ninja_with() { run ninja -C "$folder/ninja" "$@"; }
cargo_clean() { rm -rf "$folder/target"; }
cargo_with() { run cargo build --offline --manifest-path "$root/Cargo.toml" --target-dir "$folder/target" -p cmwq-observe "$@"; }
run() { "${before[@]}" "$@" >"$folder/said" 2>&1; }

# BUILD SIZE: a line with what it was, its seconds and those of CPU time.
TIMEFORMAT='%R %U %S'
timed() {
    local took before=() size=(-j "$2") kind=pipe
    # Ninja is no client of another.
    if [ "$1" = ninja ]; then kind=fifo; fi
    if [ "$2" = cmwq ]; then before=("$cmwq" run "--jobserver=$kind" --) size=(); fi
    "$1_clean"
    # What the build before and its removal leave behind is not this one's.
    sleep 0.3
    unset MAKEFLAGS CARGO_MAKEFLAGS
    took=$({ time "$1_with" "${size[@]}"; } 2>&1) || {
        cat "$folder/said" >&2
        exit 1
    }
    if [ "$2" = cmwq ]; then
        if grep -i 'warning:.*jobserver' "$folder/said" >&2; then
            echo "$1 is no client of the jobserver: its figures would be of its own -j" >&2
            exit 1
        fi
        size=(cmwq 0)
    fi
    echo "$1 ${size[*]} $took" >>"$folder/times"
}

for ((round = 1; round <= rounds; round++)); do
    for build in $builds; do
        echo "round $round of $rounds: $build ($((SECONDS)) s)" >&2
        for size in $(printf '%s\n' cmwq $sizes | shuf); do timed "$build" "$size"; done
    done
done

table() {
    local version
    version=$(sed -n 's/.*LIBGIT2_VERSION *"\(.*\)"/\1/p' "$source/include/git2/version.h")
    echo "# Builds: \`cmwq run --jobserver\` against each -j"
    echo
    echo "$(nproc) CPUs, Linux $(uname -r), load before $load, $(date -u +%Y-%m-%dT%H:%M:%SZ), commit $commit, $rounds rounds in turn${BESIDE:+; $BESIDE}."
    echo "libgit2 $version without optimisation, by $(make --version | head -n 1) and by ninja, if that is new enough; and"
    echo "\`cmwq-observe\` with what it needs, by $(cargo --version | cut -d' ' -f1-2). For each N, seconds of wall time, and of CPU time"
    echo "behind them, medians; then the best N by those, \`cmwq run\`, and how often as long it takes as the best N: the median of the same"
    echo "rounds' ratios, the least and the greatest. Made by \`bench/builds.sh\`."
    echo
    awk -v whats="$builds" -v tools=-j -v sizes="$sizes" -v rounds="$rounds" -f "$root/bench/sizes.awk" "$folder/times"
}
table | if [ "$out" = - ]; then cat; else tee "$out"; fi
