//! The kernel's small headers that come along: names that a program has, too, and barriers.

use crate::headers::said_of;
use crate::support::{compiler, include_dir, scratch, succeed};

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

/// A program whose memory is another's says how it is freed, of one of the two names or of both.
#[test]
fn a_program_may_have_another_kfree_rcu() {
    const OWN: &str = "struct memory { int rcu; };\nvoid own(void *memory, int *head);\n";
    const KFREE: &str = "#define kfree_rcu(ptr, member) own((ptr), &(ptr)->member)\n";
    const KVFREE: &str = "#define kvfree_rcu(ptr, member) own((ptr), &(ptr)->member)\n";
    const HEADER: &str = "#include <linux/rcupdate.h>\nvoid f(struct memory *memory);\n\
                          void f(struct memory *memory) { kvfree_rcu(memory, rcu); }\n";
    for (name, own) in [("kfree", KFREE.to_owned()), ("kvfree", KVFREE.to_owned())] {
        let text = format!("{OWN}{own}{HEADER}");
        let Some((is_taken, said)) = said_of("own_kfree_rcu", &text, &[]) else { return };
        assert!(is_taken, "{name}: {said}");
    }
}

/// As conditions in code that is carried over have it.
#[test]
fn a_condition_may_name_the_section() {
    const TEXT: &str = "#include <linux/rcupdate.h>\nint *f(int **p, int *lock);\n\
                        int *f(int **p, int *lock) { return rcu_dereference_check(*p, \
                        rcu_read_lock_held() || lockdep_is_held(lock)); }\n";
    let Some((is_taken, said)) = said_of("section_held", TEXT, &[]) else { return };
    assert!(is_taken, "{said}");
}

/// The functions of a header as the compiler sees them on another machine; what the C library has
/// of headers is left out. `None`: no compiler.
fn functions_on(machine: &[&str], header: &str) -> Option<Vec<String>> {
    let dir = scratch("on_another_machine");
    for theirs in ["stdbool.h", "stddef.h", "stdlib.h", "string.h"] {
        std::fs::write(dir.join(theirs), "").expect("a header");
    }
    let source = dir.join("source.c");
    std::fs::write(&source, format!("#include <{header}>\n")).expect("a source");
    let mut cc = compiler("cc")?;
    cc.args(["-E", "-P", "-nostdinc", "-U__x86_64__", "-U__i386__", "-U__s390x__"]);
    cc.args(["-U__aarch64__", "-U__ARM_FEATURE_ATOMICS"]).args(machine);
    cc.arg("-I").arg(&dir).arg("-I").arg(include_dir()).arg(&source);
    let text = String::from_utf8(succeed(&mut cc).stdout).expect("our headers are UTF-8");
    Some(text.split("static inline ").skip(1).map(str::to_owned).collect())
}

/// Those that change something and are a full barrier in the kernel: `__ATOMIC_SEQ_CST` is 5.
fn is_full_barrier(function: &str) -> bool {
    let changes = ["__atomic_fetch_", "_fetch(", "__atomic_exchange_n(", "compare_exchange_n("];
    let is_change = changes.iter().any(|change| function.contains(change));
    is_change && function.split(|c: char| !c.is_alphanumeric()).any(|word| word == "5")
}

/// A loop of load and store, as before ARMv8.1, lets what comes later be seen before the store.
#[test]
fn values_are_returned_behind_a_full_barrier() {
    let loops = ["-D__aarch64__"];
    let single = [&["-D__aarch64__", "-D__ARM_FEATURE_ATOMICS"][..], &["-D__x86_64__"]];
    for (header, least) in [("linux/atomic.h", 50), ("linux/cpumask.h", 2)] {
        let Some(functions) = functions_on(&loops, header) else { return };
        let full: Vec<_> = functions.iter().filter(|function| is_full_barrier(function)).collect();
        assert!(full.len() >= least, "{header}: {full:#?}");
        let is_fenced = |function: &String| function.contains("cmwq_fence_after(5)");
        let without: Vec<_> = full.into_iter().filter(|function| !is_fenced(function)).collect();
        assert!(without.is_empty(), "{header}: no fence in {without:#?}");
        let has_fence = |functions: &[String]| {
            functions.iter().any(|function| function.contains("__atomic_thread_fence(5)"))
        };
        assert!(has_fence(&functions), "{header}: a fence that is none");
        for machine in single {
            let functions = functions_on(machine, header).expect("as before");
            assert!(!has_fence(&functions), "{header}: a fence in vain with {machine:?}");
        }
    }
}
