//! Why a pool did or did not grow, in words. Pure.

use std::fmt::Write as _;

use cmwq_observe::inspect::Reason;

use super::about::plural;
use super::format;
use super::model::Model;
use super::sample::{Decision, Pool};

/// What the decision means here and now.
pub(super) fn because(model: &Model, pool: &Pool, decision: &Decision) -> String {
    let may = pool.concurrency.map_or("every item".to_owned(), |limit| limit.to_string());
    match decision.reason {
        Reason::WokeIdle => match pool.concurrency {
            Some(limit) => {
                format!("work came while fewer workers ran than the {limit} that may")
            }
            None => "work came, and here every admitted item may run".to_owned(),
        },
        Reason::AtCapacity if pool.concurrency.is_some_and(|limit| pool.nr_running >= limit) => {
            format!(
                "{} run and {may} may: what waits is started when one of them blocks or ends",
                pool.nr_running
            )
        }
        Reason::AtCapacity => format!("work came while {may} ran, and no more may"),
        Reason::NoIdle if pool.failed > 0 => {
            format!("work came, and creating workers has failed: {}", errno(pool))
        }
        Reason::NoIdle => "work came, and a worker had to be created first".to_owned(),
        Reason::NoWorker => "work came: the first one was created".to_owned(),
        Reason::MaxActive => behind(model, pool),
        Reason::Blocked => "it waits in its item, so another one may run".to_owned(),
        Reason::Hog => format!(
            "an item used the CPU for {} without sleeping: it counts no more, and another one may \
             run beside it",
            format::duration(model.now.hog_thresh_ns)
        ),
        Reason::Created => "somebody must be idle before an item starts, and nobody was".to_owned(),
        Reason::CreationFailed => {
            format!("no thread could be had: {}; it is tried again", errno(pool))
        }
        Reason::Culled => "a worker was idle for too long, and left".to_owned(),
        Reason::Mayday => {
            "work had nobody to come for it and no worker could be created: a rescuer was called"
                .to_owned()
        }
        Reason::Lent => "a worker went to another pool, which had more work than CPUs".to_owned(),
        _ => "this version of cmwq does not know that reason".to_owned(),
    }
}

fn errno(pool: &Pool) -> String {
    match pool.errno {
        number @ 1..4096 => {
            crate::message::errno_text(rustix::io::Errno::from_raw_os_error(number))
        }
        _ => "nobody knows why".to_owned(),
    }
}

/// Whose items wait behind a limit.
fn behind(model: &Model, pool: &Pool) -> String {
    let queues = model.now.queues.iter().filter(|queue| queue.behind.contains(&pool.id));
    let names: Vec<_> = queues
        .map(|queue| format!("{} ({} of {})", queue.name, queue.nr_active, queue.max_active))
        .collect();
    if names.is_empty() {
        return "items waited behind their queue's max_active; none does now".to_owned();
    }
    format!("items wait behind max_active, and no worker may start them: {}", names.join(", "))
}

/// Which pool it is.
pub(super) fn name(pool: &Pool) -> String {
    let is_one = pool.cpus.bytes().all(|byte| byte.is_ascii_digit());
    let what = if is_one { "CPU" } else { "CPUs" };
    format!("Pool {} ({}, {what} {})", pool.id, pool.kind, pool.cpus)
}

/// How a pool stands.
pub(super) fn stands(pool: &Pool) -> String {
    let mut text = format!(
        "{}: {}, {} idle, {} running",
        name(pool),
        plural(pool.nr_workers.into(), "worker"),
        pool.nr_idle,
        pool.nr_running
    );
    if let Some(limit) = pool.concurrency {
        let _ = write!(text, " of {limit}");
    }
    if pool.failed > 0 {
        let _ = write!(text, ", {} creations failed", pool.failed);
    }
    text
}

/// How a pool stands, and its last decision.
pub(super) fn pool(model: &Model, pool: &Pool) -> String {
    let mut text = stands(pool) + ". ";
    match model.pool_row(pool).last {
        None => text.push_str("It has decided nothing yet."),
        Some(last) => {
            let ago = format::duration(model.now.taken_ns.saturating_sub(last.last_ns));
            let _ =
                write!(text, "Last, {ago} ago: {}: {}.", last.reason, because(model, pool, &last));
        }
    }
    text
}
