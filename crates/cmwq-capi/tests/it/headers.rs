//! Each header by itself, in each language, with all warnings as errors.

use std::process::Command;

use crate::support::{DIALECTS, compiler, include_dir, scratch, succeed};

/// What a program brings that has types of its own.
const OWN_TYPES: &str = "\
#include <stdbool.h>
#define HZ 100
struct list_head { struct list_head *next, *prev; };
typedef struct { long counter; } atomic_long_t;
struct timer_list { int something_else; };
";

/// Everything that is a macro, so that it is expanded once.
const USES: &str = "
static void func(struct work_struct *work) { (void)work; }
static DECLARE_WORK(one, func);
static DECLARE_DELAYED_WORK(two, func);
static DECLARE_DEFERRABLE_WORK(three, func);
struct holder \
{ int number; struct work_struct work; struct delayed_work dwork; struct rcu_work rwork; };
int use(struct holder *holder, struct workqueue_struct *wq);
int use(struct holder *holder, struct workqueue_struct *wq)
{
	struct holder *back = from_work(back, &holder->work, work);
	struct workqueue_struct *made = alloc_workqueue(\"%s-%d\", WQ_UNBOUND | WQ_HIGHPRI, 4,
		\"name\", 1);
	struct workqueue_struct *ordered = alloc_ordered_workqueue(\"%s\", WQ_MEM_RECLAIM, \"name\");
	struct workqueue_struct *plain = alloc_ordered_workqueue(\"name\", 0);
	struct workqueue_struct *old = create_workqueue(\"a\"), *single =
		create_singlethread_workqueue(\"b\");
	struct workqueue_struct *freezable = create_freezable_workqueue(\"c\");

	struct workqueue_struct *mapped = alloc_workqueue_lockdep_map(\"%d\", WQ_PERCPU, 0, (struct
		lockdep_map *)0, 1);
	struct workqueue_struct *line = alloc_ordered_workqueue_lockdep_map(\"%s\", 0, (struct
		lockdep_map *)0, \"l\");
	struct workqueue_struct *owned = devm_alloc_workqueue((struct device *)holder, \"%d\",
		WQ_PERCPU, 0, 1);
	struct workqueue_struct *kept = devm_alloc_ordered_workqueue((struct device *)holder,
		\"%d\", 0, 1);
	unsigned long mask = WORK_STRUCT_PWQ_MASK | WORK_STRUCT_FLAG_MASK | WORK_OFFQ_FLAG_MASK |
		WORK_OFFQ_LEFT;

	INIT_RCU_WORK(&holder->rwork, func);
	INIT_RCU_WORK_ONSTACK(&holder->rwork, func);
	__INIT_DELAYED_WORK(&holder->dwork, func, 0);
	__INIT_DELAYED_WORK_ONSTACK(&holder->dwork, func, 0);
	__INIT_WORK_KEY(&holder->work, func, 0, 0);
	INIT_WORK_ONSTACK_KEY(&holder->work, func, 0);
	INIT_DEFERRABLE_WORK_ONSTACK(&holder->dwork, func);
	INIT_DELAYED_WORK_ONSTACK(&holder->dwork, func);
	queue_rcu_work(wq, &holder->rwork);
	flush_rcu_work(&holder->rwork);
	delayed_work_timer_fn(&holder->dwork.timer);
	show_all_workqueues();
	print_worker_info(\"\", cmwq_task(0));
	INIT_WORK(&holder->work, func);
	INIT_WORK_ONSTACK(&holder->work, func);
	INIT_DELAYED_WORK(&holder->dwork, func);
	INIT_DEFERRABLE_WORK(&holder->dwork, func);
	destroy_work_on_stack(&holder->work);
	destroy_delayed_work_on_stack(&holder->dwork);
	flush_workqueue(wq);
	flush_workqueue(wq), schedule_work(&one);
	set_worker_desc(\"%d\", 1);
	schedule_work(&one);
	schedule_delayed_work(&two, HZ);
	mod_delayed_work(wq, &three, 2 * HZ);
	return mask && mapped && line && owned && kept && to_rcu_work(&holder->rwork.work) ==
		&holder->rwork &&
	       back == holder && made && ordered && plain && old && single && freezable &&
	       work_pending(&one) && delayed_work_pending(&two) &&
	       to_delayed_work(&two.work) == &two && two.timer.expires;
}
";

fn check(name: &str, text: &str, flags: &[&str]) {
    let dir = scratch(name);
    let source = dir.join("source");
    std::fs::write(&source, text).expect("a source");
    for (program, standard, language) in DIALECTS {
        for optimised in ["-O0", "-O2"] {
            let Some(mut cc) = compiler(program) else { continue };
            compile(&mut cc, &[standard, optimised, "-x", language], flags);
            // GNU C89 has what is in C99 without being asked, and warns of it then.
            if standard != "-std=gnu89" {
                cc.arg("-Wpedantic");
            }
            succeed(cc.arg(&source).arg("-o").arg(dir.join("object")));
        }
    }
}

fn compile<'a>(cc: &'a mut Command, how: &[&str], flags: &[&str]) -> &'a mut Command {
    // A program's own headers come before the library's.
    cc.args(["-Wall", "-Wextra", "-Werror", "-c"])
        .args(how)
        .args(flags)
        .arg("-I")
        .arg(include_dir())
}

/// The headers of one folder, as a program includes them.
fn headers_in(folder: &str) -> Vec<String> {
    let files = std::fs::read_dir(include_dir().join(folder)).expect("a folder of headers");
    let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".h")).map(|name| format!("{folder}{name}")).collect()
}

#[test]
fn each_header_is_complete() {
    let headers: Vec<_> = ["", "cmwq/", "linux/"].into_iter().flat_map(headers_in).collect();
    assert!(headers.len() > 9, "{headers:?}");
    for header in headers {
        let text = format!("#include <{header}>\n#include <{header}>\nint nothing_else;\n");
        check(&format!("header_{}", header.replace('/', "_")), &text, &[]);
    }
}

#[test]
fn all_macros_compile() {
    check("macros", &format!("#include <linux/workqueue.h>\n{USES}"), &[]);
    check("macros_hz", &format!("#include <linux/workqueue.h>\n{USES}"), &["-DHZ=1000"]);
}

#[test]
fn all_macros_compile_with_own_types() {
    let text = format!("{OWN_TYPES}#include <linux/workqueue.h>\n{USES}");
    check("macros_own", &text, &["-DCMWQ_NO_KERNEL_SHIMS"]);
}

/// What the compiler says of a program as GNU C11 with optimisation; `None`: no compiler.
pub(crate) fn said_of(name: &str, text: &str, flags: &[&str]) -> Option<(bool, String)> {
    let mut cc = compiler("cc")?;
    let dir = scratch(name);
    let source = dir.join("source.c");
    std::fs::write(&source, text).expect("a source");
    compile(&mut cc, &["-std=gnu11", "-O2"], flags);
    let output = cc.arg(&source).arg("-o").arg(dir.join("object")).output().expect("it runs");
    Some((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// From a member, or from what says nothing of what it leads to; in C another pointer is refused.
#[test]
fn container_of_is_for_pointers_to_the_member() {
    const TYPES: &str = "#include <linux/container_of.h>\nstruct part { int number; };\n\
                         struct whole { long before; struct part part; };\n";
    let holder = |pointer: &str| {
        format!(
            "{TYPES}struct whole *f({pointer});\nstruct whole *f({pointer})\n\
             {{ return container_of(at, struct whole, part); }}\n"
        )
    };
    for (index, pointer) in
        ["struct part *at", "const struct part *at", "void *at", "const void *at"]
            .iter()
            .enumerate()
    {
        check(&format!("container_of_{index}"), &holder(pointer), &["-Wpedantic"]);
    }
    for pointer in ["long *at", "struct whole *at", "struct part **at"] {
        let Some((is_taken, said)) = said_of("container_of_other", &holder(pointer), &[]) else {
            return;
        };
        assert!(!is_taken && said.contains("IS_TO_MEMBER"), "{pointer}: {said}");
    }
}

/// The same of `from_work`, which has another one for what `to_delayed_work` leads to.
#[test]
fn from_work_is_for_pointers_to_the_member() {
    let holder = |pointer: &str, member: &str| {
        format!(
            "#include <linux/workqueue.h>\nstruct whole {{ int number; struct work_struct work; \
             struct delayed_work dwork; }};\nint f({pointer});\nint f({pointer})\n\
             {{ struct whole *whole = from_work(whole, at, {member}); return whole->number; }}\n"
        )
    };
    for (index, (pointer, member)) in [
        ("struct work_struct *at", "work"),
        ("void *at", "work"),
        ("struct work_struct *at", "dwork.work"),
    ]
    .into_iter()
    .enumerate()
    {
        check(&format!("from_work_{index}"), &holder(pointer, member), &[]);
    }
    for (pointer, member) in [("struct work_struct *at", "dwork"), ("int *at", "work")] {
        let Some((is_taken, said)) = said_of("from_work_other", &holder(pointer, member), &[])
        else {
            return;
        };
        assert!(!is_taken && said.contains("IS_TO_MEMBER"), "{pointer} {member}: {said}");
    }
}

/// POSIX's timers are pointers to void. Of one that leads to a timer of the kernel's nobody would
/// hear that it stays armed.
#[test]
fn deleting_a_timer_by_a_pointer_to_void_is_refused() {
    let text = |pointer: &str, call: &str| {
        format!(
            "#include <linux/timer.h>\nint f({pointer});\nint f({pointer}) {{ return {call}; }}\n"
        )
    };
    // Also where warnings are none: of macros from a system's folder, as CMake names others'.
    let folder = include_dir().display().to_string();
    for flags in [&["-O0"][..], &["-O2"], &["-Wno-error", "-isystem", &folder]] {
        let said = said_of("timer_void", &text("void *at", "timer_delete(at)"), flags);
        let Some((is_taken, said)) = said else { return };
        assert!(!is_taken && said.contains("of a pointer to void: cast it"), "{flags:?}: {said}");
    }
    let other = text("struct other *at", "timer_delete(at)");
    let (is_taken, said) =
        said_of("timer_other", &format!("struct other;\n{other}"), &[]).expect("as before");
    assert!(!is_taken, "another pointer is POSIX's: {said}");
    for (pointer, call) in
        [("struct timer_list *at", "timer_delete(at)"), ("timer_t at", "(timer_delete)(at)")]
    {
        let (is_taken, said) =
            said_of("timer_known", &text(pointer, call), &[]).expect("as before");
        assert!(is_taken, "{pointer}: {said}");
    }
    // It is no extension of the program's own.
    let known = text("struct timer_list *at", "timer_delete(at)");
    let c99 = ["-std=c99", "-Wpedantic"];
    let (is_taken, said) = said_of("timer_c99", &known, &c99).expect("as before");
    assert!(is_taken, "{said}");
}

/// A program's own names do not meet those inside of a macro.
#[test]
fn macros_have_names_of_their_own() {
    let text = "#include <linux/workqueue.h>\nstatic struct lock_class_key key;\n\
                static long call(void *arg) { (void)arg; return 0; }\n\
                static void tick(struct timer_list *timer) { (void)timer; }\n\
                static struct { struct timer_list t; } own = { __TIMER_INITIALIZER(tick, 0) };\n\
                long f(struct workqueue_struct *_wq);\n\
                long f(struct workqueue_struct *_wq) { flush_workqueue(_wq); \
                return work_on_cpu_key(0, call, &own, &key) + (long)jiffies_64; }\n";
    check("macros_names", text, &["-Wshadow"]);
}

/// The compiler says it where a queue of everybody's is flushed, for the same ones as the kernel's.
#[test]
fn flushing_a_system_queue_is_warned_of() {
    let flushed = [
        "flush_scheduled_work()",
        "flush_workqueue(system_percpu_wq)",
        "flush_workqueue(system_freezable_wq)",
    ];
    for (index, call) in flushed.into_iter().enumerate() {
        let text =
            format!("#include <linux/workqueue.h>\nvoid f(void);\nvoid f(void) {{ {call}; }}\n");
        let Some((is_taken, said)) = said_of(&format!("warned_{index}"), &text, &[]) else {
            return;
        };
        assert!(!is_taken && said.contains("system-wide workqueue"), "{call}: {said}");
    }
    for other in ["wq", "system_wq", "system_unbound_wq", "system_bh_wq"] {
        let text = format!(
            "#include <linux/workqueue.h>\nvoid f(struct workqueue_struct *wq);\n\
             void f(struct workqueue_struct *wq) {{ (void)wq; flush_workqueue({other}); }}\n"
        );
        let (is_taken, said) = said_of("not_warned", &text, &[]).expect("as before");
        assert!(is_taken, "{other}: {said}");
    }
}

/// No file of a program has another `HZ` than its others because of what else it includes.
#[test]
fn hz_is_not_what_a_system_header_says() {
    const HEADER: &str = "#include <linux/workqueue.h>\n";
    const IS: &str = "_Static_assert(HZ == CMWQ_HZ && HZ == EXPECTED, \"\");\n\
                      unsigned long f(void);\nunsigned long f(void) { return jiffies + HZ; }\n";
    let before = format!("#include <sys/param.h>\n{HEADER}{IS}");
    let after = format!("{HEADER}#include <sys/param.h>\n{IS}");
    let alone = format!("{HEADER}{IS}");
    let accepted: [(&str, &[&str]); 4] = [
        ("250", &[]),
        ("1000", &["-DHZ=1000"]),
        ("1000", &["-DCMWQ_HZ=1000"]),
        ("100", &["-DCMWQ_HZ=100"]),
    ];
    for (expected, flags) in accepted {
        for (order, text) in [("before", &before), ("after", &after), ("alone", &alone)] {
            let expects = format!("-DEXPECTED={expected}");
            let flags = [flags, &[&*expects]].concat();
            let Some((is_taken, said)) = said_of("hz", text, &flags) else { return };
            assert!(is_taken, "{order} {flags:?}: {said}");
        }
    }
    // Of 100 nobody knows whose it is.
    let (is_taken, said) = said_of("hz_100", &alone, &["-DHZ=100"]).expect("as before");
    assert!(!is_taken && said.contains("define CMWQ_HZ as 100"), "{said}");
    let own = ["-DCMWQ_NO_JIFFIES_SHIM"];
    let (is_taken, said) = said_of("hz_none", HEADER, &own).expect("as before");
    assert!(!is_taken && said.contains("no HZ"), "{said}");
}

/// A program's own headers are included where the kernel's header includes the kernel's, before or
/// behind the library's in the compiler's path.
#[test]
fn own_headers_are_included() {
    let own = scratch("own_headers");
    std::fs::create_dir_all(own.join("linux")).expect("a folder");
    let header = |name: &str, text: &str| {
        std::fs::write(own.join("linux").join(name), text).expect("a header");
    };
    for name in
        ["linkage", "bitops", "threads", "lockdep", "timer", "cpumask", "rcupdate", "container_of"]
    {
        header(&format!("{name}.h"), &format!("#define OWN_{name} 1\n"));
    }
    header("jiffies.h", "#define OWN_jiffies 1\n#define HZ 300\n");
    header("atomic.h", "#define OWN_atomic 1\ntypedef struct { long l; } atomic_long_t;\n");
    header(
        "list.h",
        "#include <stdbool.h>\nstruct list_head { struct list_head *next, *prev; };\n",
    );
    let text = "#include <linux/workqueue.h>\n\
                int f[OWN_linkage + OWN_bitops + OWN_threads + OWN_lockdep + OWN_timer + \
                OWN_cpumask + OWN_rcupdate + OWN_jiffies + OWN_atomic == 9 ? 1 : -1];\n\
                _Static_assert(CMWQ_HZ == 300, \"\");\n";
    let folder = own.display().to_string();
    for flag in ["-I", "-idirafter"] {
        let flags = ["-DCMWQ_NO_KERNEL_SHIMS", flag, &folder];
        let Some((is_taken, said)) = said_of("own_headers_program", text, &flags) else { return };
        assert!(is_taken, "{flag}: {said}");
    }
    // One of them that comes later in the path, in place of the library's.
    std::fs::remove_dir_all(own.join("linux")).expect("it was there");
    std::fs::create_dir_all(own.join("linux")).expect("a folder");
    header("list.h", "struct list_head { struct list_head *next, *prev; };\n#define OWN_list 1\n");
    let text = "#include <linux/workqueue.h>\nint f[OWN_list];\n\
                static atomic_t number = ATOMIC_INIT(1);\nint g(void);\n\
                int g(void) { return atomic_inc_return(&number) + (int)jiffies; }\n";
    for dialect in ["-std=gnu11", "-std=c11"] {
        let flags = [dialect, "-Wpedantic", "-DCMWQ_NO_LIST_SHIM", "-idirafter", &folder];
        let (is_taken, said) = said_of("mixed_headers", text, &flags).expect("as before");
        assert!(is_taken, "{said}");
    }
}

/// The kernel's small headers as a program has them, each with something else than ours has.
const OWN_HEADERS: [(&str, &str); 8] = [
    ("atomic", "typedef struct { long own; } atomic_long_t;"),
    ("cpumask", "#define NR_CPUS 64\nstruct cpumask { unsigned long own[1]; };"),
    ("device", "struct device { int own; };"),
    ("jiffies", "#define HZ 100\nextern unsigned long jiffies;"),
    ("list", "struct list_head { struct list_head *next, *prev; };"),
    ("lockdep", "struct lockdep_map { int own; };\nstruct lock_class_key { int own; };"),
    ("rcupdate", "struct rcu_head { int own; };"),
    ("timer", "struct timer_list { int own; };"),
];

/// Headers of a program's own that come earlier in the compiler's path are read in place of ours
/// without another word: each by itself, all but one, and all.
#[test]
fn own_headers_mix_with_ours() {
    const ALL: u32 = (1 << OWN_HEADERS.len()) - 1;
    let single = (0..OWN_HEADERS.len()).map(|index| 1 << index);
    for set in single.flat_map(|bit| [bit, ALL - bit]).chain([ALL]) {
        let folder = scratch(&format!("own_headers_{set}"));
        std::fs::create_dir_all(folder.join("linux")).expect("a folder");
        let mut text = format!("#include <cmwq.h>\n#include <linux/device.h>\n{USES}");
        for (index, (name, own)) in OWN_HEADERS.iter().enumerate() {
            let is_own = set >> index & 1 != 0;
            if is_own {
                let guard = format!("#ifndef OWN_{name}\n#define OWN_{name}\n");
                let own = format!("{guard}#include <stdbool.h>\n{own}\n#endif\n");
                std::fs::write(folder.join(format!("linux/{name}.h")), own).expect("a header");
            }
            let is_read = if is_own { "ifndef" } else { "ifdef" };
            text += &format!("#{is_read} OWN_{name}\n#error \"{name}.h\"\n#endif\n");
            if *name == "jiffies" {
                let hz = if is_own { 100 } else { 250 };
                text += &format!("_Static_assert(CMWQ_HZ == {hz} && HZ == {hz}, \"HZ\");\n");
            }
        }
        let folder = folder.display().to_string();
        // A system's header that has an HZ, too, changes nothing.
        for before in ["", "#include <sys/param.h>\n"] {
            let text = format!("{before}{text}");
            let Some((is_taken, said)) = said_of("own_mixed", &text, &["-I", &folder]) else {
                return;
            };
            let names = OWN_HEADERS.iter().enumerate().filter(|(index, _)| set >> index & 1 != 0);
            let names: Vec<_> = names.map(|(_, (name, _))| name).collect();
            assert!(is_taken, "{names:?} {before}: {said}");
        }
    }
}

/// Headers of the C library that have some of the names, too, before and after.
#[test]
fn what_the_c_library_has_of_the_names() {
    const USE: &str = "static _Atomic int number;\nint f(timer_t t, struct timer_list *l);\n\
                       int f(timer_t t, struct timer_list *l)\n\
                       { return atomic_fetch_add(&number, 1) + (timer_delete)(t) + \
                       timer_delete(l); }\n";
    const OURS: &str = "#include <cmwq.h>\n";
    const THEIRS: &str = "#include <stdatomic.h>\n#include <time.h>\n#include <sys/param.h>\n\
                          #include <search.h>\n#include <sys/queue.h>\n";
    for (name, first, second) in [("after", OURS, THEIRS), ("before", THEIRS, OURS)] {
        let text = format!("#define _GNU_SOURCE\n{first}{second}{USE}");
        let Some((is_taken, said)) = said_of(&format!("names_{name}"), &text, &[]) else { return };
        assert!(is_taken, "{name}: {said}");
    }
}
