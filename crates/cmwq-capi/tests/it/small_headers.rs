//! The kernel's small headers that come along: names that a program has, too.

use crate::headers::said_of;

/// Sets stay as large as the library takes them to be.
#[test]
fn a_program_may_have_another_nr_cpus() {
    const HEADER: &str = "#include <linux/workqueue.h>\n";
    const IS: &str = "_Static_assert(nr_cpu_ids == 8192 && nr_cpumask_bits == 8192, \"\");\n\
                      _Static_assert(sizeof(struct cpumask) == 1024 && NR_CPUS == 4, \"\");\n";
    let before = format!("#define NR_CPUS 4\n{HEADER}{IS}");
    let after = format!("{HEADER}#undef NR_CPUS\n#define NR_CPUS 4\n{IS}");
    let told = format!("{HEADER}{IS}");
    for (name, text, flags) in
        [("before", before, &[][..]), ("after", after, &[]), ("told", told, &["-DNR_CPUS=4"])]
    {
        let Some((is_taken, said)) = said_of("nr_cpus", &text, flags) else { return };
        assert!(is_taken, "{name}: {said}");
    }
}

/// A program that has members or variables of this name takes the macro away.
#[test]
fn the_headers_do_without_the_name_jiffies() {
    const TEXT: &str = "#include <linux/workqueue.h>\n#undef jiffies\n\
                        struct at { unsigned long jiffies; };\n\
                        unsigned long f(struct at *at);\nunsigned long f(struct at *at)\n\
                        { return time_is_before_jiffies(at->jiffies) ? get_jiffies_64() : \
                        round_jiffies(at->jiffies) + round_jiffies_up_relative(at->jiffies); }\n";
    let Some((is_taken, said)) = said_of("own_jiffies", TEXT, &[]) else { return };
    assert!(is_taken, "{said}");
}
