//! The programs in `tests/kernel`, which use the kernel's names only: one for each documented
//! assertion about what runs when (`a_ordered` to `o_timer_in_drain`, and `scenarios`), and the
//! rest with one row for each entry of the interface. Each row is a process, and a test. Those in
//! `tests/clients` use the interface as three well-known parts of the kernel do.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::support::{crate_dir, program, run};

const CLIENTS: [&str; 3] = ["async", "padata", "resize"];

fn folder(name: &str) -> PathBuf {
    crate_dir().join("tests").join(name)
}

/// Built once per program, whichever of its rows comes first.
fn built(file: &'static str) -> Option<PathBuf> {
    static BUILT: Mutex<BTreeMap<&str, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut programs = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let harness = format!("-I{}", folder("kernel").display());
    let is_client = CLIENTS.contains(&file);
    let source = folder(if is_client { "clients" } else { "kernel" }).join(format!("{file}.c"));
    let build = || program(&format!("kernel_{file}"), &source, &[&harness]);
    programs.entry(file).or_insert_with(build).clone()
}

/// Runs one row; what is in `says` must be on standard error.
#[expect(clippy::print_stdout, reason = "what a row printed is shown where its test fails")]
fn check(file: &'static str, row: &str, says: &[&str]) {
    let Some(program) = built(file) else { return };
    let output = run(Command::new(program).arg(row).env_remove("CMWQ_QUIET"));
    let (said, printed) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{file} {row}: {}\n{said}", output.status);
    assert!(printed.contains(&format!("{row}: done")), "{file} has no row {row}");
    for text in says {
        assert!(said.contains(text), "{file} {row} does not say '{text}':\n{said}");
    }
    print!("{printed}");
}

macro_rules! rows {
    ($($file:ident as $name:literal { $($row:ident $([$($says:literal),*])?,)* })*) => {
        const ROWS: &[(&str, &[&str])] =
            &[$(($name, &[$(stringify!($row)),*])),*];
        $(mod $file {
            $(#[test]
            fn $row() {
                super::check($name, stringify!($row), &[$($($says),*)?]);
            })*
        })*
    };
}

rows! {
    async_cookies as "async" {
        effects_are_in_order,
        a_cookie_is_waited_for,
    }
    padata as "padata" {
        results_come_out_in_order,
    }
    resize as "resize" {
        grows_and_shrinks_while_it_is_used,
        ends_in_the_middle,
    }
    a_ordered as "a_ordered" {
        one_at_a_time_in_order,
    }
    alloc as "alloc" {
        alloc_workqueue [
            "is too long",
            "max_active 100000 of workqueue",
            "max_active -3 of workqueue"
        ],
        devm_alloc_workqueue,
        alloc_ordered_workqueue,
        alloc_workqueue_lockdep_map,
        create_workqueue,
        create_freezable_workqueue,
        create_singlethread_workqueue ["the limit of workqueue 'single' cannot be changed"],
        destroy_workqueue,
        alloc_workqueue_attrs,
        apply_workqueue_attrs ["workqueue 'percpu': attributes can be changed of unbound and \
                                ordered queues only"],
        workqueue_set_max_active,
        workqueue_set_min_active ["'percpu'"],
        workqueue_sysfs_register,
        workqueue_unbound_housekeeping_update,
    }
    asking as "asking" {
        work_busy,
        workqueue_congested,
        current_work,
        current_is_workqueue_rescuer,
        current_is_workqueue_mem_reclaim,
        set_worker_desc,
        print_worker_info ["Workqueue: asked", "(described)"],
        show_workqueues [
            "workqueue asked: flags=",
            "in-flight:",
            "inactive:",
            "Showing busy workqueues and worker pools",
            "Showing freezable workqueues"
        ],
        core_hooks,
        freeze_workqueues,
        affinity_scopes,
        work_cpu_unbound,
    }
    b_nonreentrant as "b_nonreentrant" {
        percpu,
        unbound,
        highpri_intensive,
    }
    c_limits as "c_limits" {
        never_more_than_max_active,
        min_active_items_may_depend_on_each_other,
    }
    d_flush_requeue as "d_flush_requeue" {
        percpu,
        unbound,
    }
    e_many_flushers as "e_many_flushers" {
        percpu,
        unbound,
        ordered,
    }
    f_cancel_requeue as "f_cancel_requeue" {
        work,
        delayed_work,
    }
    flags as "flags" {
        wq_bh ["only highpri and percpu go with bh", "a bh queue has no limit"],
        wq_unbound,
        wq_freezable,
        wq_mem_reclaim,
        wq_highpri,
        wq_cpu_intensive,
        wq_sysfs,
        wq_power_efficient,
        wq_percpu ["has neither WQ_PERCPU nor WQ_UNBOUND; WQ_PERCPU assumed", "has both WQ_PERCPU \
                                                                               and WQ_UNBOUND; \
                                                                               WQ_PERCPU dropped"],
        wq_destroying_and_draining,
        wq_ordered,
        wq_legacy,
        wq_deprecated ["deprecated system workqueue"],
    }
    g_disable as "g_disable" {
        work,
        delayed_work,
    }
    h_drain as "h_drain" {
        percpu ["is being drained, destroyed or shut down"],
        unbound,
        ordered,
    }
    i_freeze as "i_freeze" {
        parked_and_released_in_order,
    }
    init as "init" {
        init_work,
        init_delayed_work,
        init_rcu_work,
        declare,
        debug_hooks,
        container_of_helpers,
        work_pending,
    }
    j_rescuer as "j_rescuer" {
        percpu,
        unbound,
    }
    k_idle as "k_idle" {
        surplus_workers_leave,
    }
    l_self_free as "l_self_free" {
        percpu,
        unbound,
        bh,
    }
    m_recycled as "m_recycled" {
        another_function_runs_beside,
        the_same_function_waits,
        an_item_made_anew_inside_is_waited_for,
        an_item_that_went_elsewhere_is_waited_for,
    }
    n_requeue_elsewhere as "n_requeue_elsewhere" {
        the_first_pool_runs_it,
    }
    o_timer_in_drain as "o_timer_in_drain" {
        the_item_is_idle,
    }
    queueing as "queueing" {
        queue_work_on,
        queue_work_on_a_draining_queue ["is being drained, destroyed or shut down"],
        queue_work,
        queue_work_node,
        queue_delayed_work,
        mod_delayed_work,
        queue_rcu_work,
        delayed_work_timer_fn,
        schedule_work,
        schedule_on_each_cpu,
        execute_in_process_context,
        work_on_cpu,
        enable_and_queue_work,
    }
    scenarios as "scenarios" {
        others_run_while_one_sleeps,
        two_slots,
        one_slot,
        intensive_items_do_not_count,
    }
    system as "system" {
        system_wq,
        system_percpu_wq,
        system_highpri_wq,
        system_long_wq,
        system_unbound_wq,
        system_dfl_wq,
        system_dfl_long_wq,
        system_freezable_wq,
        system_power_efficient_wq,
        system_freezable_power_efficient_wq,
        system_bh_wq,
        system_bh_highpri_wq,
    }
    types as "types" {
        work_func_t,
        work_struct,
        delayed_work,
        rcu_work,
        execute_work,
        workqueue_attrs,
        workqueue_struct,
    }
    waiting as "waiting" {
        flush_work,
        flush_work_from_inside ["itself"],
        flush_delayed_work,
        flush_rcu_work,
        flush_workqueue,
        flush_scheduled_work ["a system-wide workqueue is flushed"],
        drain_workqueue,
        cancel_work,
        cancel_work_sync,
        cancel_work_sync_of_a_bh_item,
        cancel_delayed_work,
        disable_work ["65535"],
        enable_work ["enable"],
        disable_delayed_work,
    }
    word as "word" {
        pending_bit,
        inactive_bit,
        pwq_bit,
        linked_bit,
        color,
        pwq_pointer,
        offq_bh_bit,
        offq_disable_depth,
        offq_pool_id,
        initial_values,
    }
}

/// What the programs list is what is run above.
#[test]
fn no_row_is_left_out() {
    let mut listed = BTreeMap::new();
    let entries = ["kernel", "clients"].map(|name| std::fs::read_dir(folder(name)).expect("there"));
    for entry in entries.into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "c") {
            let text = std::fs::read_to_string(&path).expect("a source");
            let names = text.split("\nROWS(").nth(1).expect("it has rows");
            let names = names.split("ROW(").skip(1).filter_map(|rest| rest.split(')').next());
            let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
            listed.insert(file, names.map(str::to_owned).collect::<Vec<_>>());
        }
    }
    let names = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<String>>();
    let run: BTreeMap<_, _> =
        ROWS.iter().map(|(file, rows)| ((*file).to_owned(), names(rows))).collect();
    assert_eq!(run, listed);
}
