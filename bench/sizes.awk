# A table in Markdown of what takes how long at which size, and of `cmwq run`, which has none, against the best of them.
#
# Reads lines WHAT TOOL SIZE WALL USER SYSTEM, one for each round; of `cmwq run` the tool is cmwq and the size 0. Given by -v: rounds,
# and whats, tools and sizes, each parted by blanks. Of several values it takes the median,
# which for an even number of them is the mean of both middles.

function sort_rounds(from, to,   i, j, x) {
    for (i = 1; i <= rounds; i++) to[i] = from[i]
    for (i = 2; i <= rounds; i++) {
        x = to[i]
        for (j = i - 1; j > 0 && to[j] > x; j--) to[j + 1] = to[j]
        to[j + 1] = x
    }
}

function middle(sorted) {
    return (sorted[int((rounds + 1) / 2)] + sorted[int(rounds / 2) + 1]) / 2
}

function median(times, key,   i, one, all) {
    for (i = 1; i <= rounds; i++) one[i] = times[key, i]
    sort_rounds(one, all)
    return middle(all)
}

{
    key = $1 " " $2 " " $3
    n = ++seen[key]
    wall[key, n] = $4
    cpu[key, n] = $5 + $6
}

END {
    nr_whats = split(whats, what, " "); nr_tools = split(tools, tool, " "); nr_sizes = split(sizes, size, " ")
    head = "| | |"; rule = "|---|---|"
    for (s = 1; s <= nr_sizes; s++) { head = head " " size[s] " |"; rule = rule "---:|" }
    print head " best | cmwq run | ratio |"
    print rule "---:|---:|---:|"
    for (w = 1; w <= nr_whats; w++) for (t = 1; t <= nr_tools; t++) {
        line = "| " what[w] " | " tool[t] " |"; best = ""
        for (s = 1; s <= nr_sizes; s++) {
            key = what[w] " " tool[t] " " size[s]
            took = median(wall, key)
            line = line sprintf(" %.2f (%.2f) |", took, median(cpu, key))
            if (best == "" || took < least) { best = size[s]; least = took }
        }
        own = what[w] " cmwq 0"; key = what[w] " " tool[t] " " best
        for (i = 1; i <= rounds; i++) ratio[i] = wall[own, i] / wall[key, i]
        sort_rounds(ratio, all)
        line = line sprintf(" %s | %.2f (%.2f) |", best, median(wall, own), median(cpu, own))
        print line sprintf(" %.3f (%.2f to %.2f) |", middle(all), all[1], all[rounds])
    }
}
