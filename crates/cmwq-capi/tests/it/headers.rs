//! Each header by itself, in each language, with all warnings as errors.

use std::process::Command;

use crate::support::{compiler, include_dir, scratch, succeed};

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

const DIALECTS: [(&str, &str, &str); 4] = [
    ("cc", "-std=gnu89", "c"),
    ("cc", "-std=c11", "c"),
    ("cc", "-std=gnu11", "c"),
    ("c++", "-std=c++17", "c++"),
];

fn check(name: &str, text: &str, flags: &[&str]) {
    let dir = scratch(name);
    let source = dir.join("source");
    std::fs::write(&source, text).expect("a source");
    for (program, standard, language) in DIALECTS {
        for optimised in ["-O0", "-O2"] {
            let Some(mut cc) = compiler(program) else { continue };
            compile(&mut cc, &[standard, optimised, "-x", language], flags);
            succeed(cc.arg(&source).arg("-o").arg(dir.join("object")));
        }
    }
}

fn compile<'a>(cc: &'a mut Command, how: &[&str], flags: &[&str]) -> &'a mut Command {
    cc.args(["-Wall", "-Wextra", "-Werror", "-c", "-I"]).arg(include_dir()).args(how).args(flags)
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

/// The compiler says it where a queue of everybody's is flushed.
#[test]
fn flushing_a_system_queue_is_warned_of() {
    let Some(mut cc) = compiler("cc") else { return };
    let dir = scratch("warned");
    let source = dir.join("source.c");
    let text =
        "#include <linux/workqueue.h>\nvoid f(void);\nvoid f(void) { flush_scheduled_work(); }";
    std::fs::write(&source, text).expect("a source");
    compile(&mut cc, &["-std=gnu11", "-O2"], &[]);
    let output = cc.arg(&source).arg("-o").arg(dir.join("object")).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("system-wide workqueue"), "{said}");
}
