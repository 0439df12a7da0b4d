# How many processes of the commands were runnable at once, from a record of the scheduler.
#
# Reads `perf script -F time,event,trace` of sched:sched_switch, sched_wakeup and sched_wakeup_new. Given by -v: cpus, how many there are;
# names, an expression for the names of the commands' processes. Prints the most at once, for which part of the time (from the first such
# process to the last, in %) there were more than CPUs, for how many ms without a break, and how many seconds that time is.

function field(name,   at, rest) {
    at = index($0, name "=")
    rest = substr($0, at + length(name) + 1)
    # Names may have blanks; behind each comes another field.
    sub(/ ([a-z_]+=|==>).*/, "", rest)
    return rest
}

# The thread can run, or has a CPU, from now on; or not.
function set(pid, name, is_runnable,   is_ours) {
    is_ours = is_runnable && name ~ names
    if (is_ours && !(pid in runnable)) { runnable[pid] = 1; count++ }
    if (!is_ours && (pid in runnable)) { delete runnable[pid]; count-- }
}

{
    now = $1 + 0
    if (first == "" && count > 0) first = last
    if (count > 0) end = now
    if (count > cpus) { above += now - last; stretch += now - last } else stretch = 0
    if (stretch > longest) longest = stretch
    last = now
}

$2 ~ /sched_switch/ {
    set(field("prev_pid"), field("prev_comm"), field("prev_state") ~ /^R/)
    set(field("next_pid"), field("next_comm"), 1)
}

$2 ~ /sched_wakeup/ { set(field("pid"), field("comm"), 1) }

{ if (count > most) most = count }

END {
    took = end - first
    part = (took > 0) ? 100 * above / took : 0
    printf "%d | %.1f | %.1f | %.3f\n", most, part, 1000 * longest, took
}
