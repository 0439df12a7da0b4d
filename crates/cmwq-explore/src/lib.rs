//! Every small history of cmwq's scheduling core, not only random ones.
//!
//! The core decides and never acts, so what a program built on it can do is a set of histories: any
//! order of its threads' lock holds. For a small *scope* ([`scope`]) there are finitely many
//! states, and [`search`] visits them all, breadth first. `README.md` has the vocabulary, what is
//! checked, and how to read a counterexample.
//!
//! Reading order: [`scope`] → `world` (the driver, cut into lock holds) → `ledger` and `checks`
//! (what must hold) → `value` (when two states are one) → `search` → `progress`.
//!
//! Why: docs/decisions/exhaustive-search.md

mod arena;
mod checks;
mod event;
mod ledger;
mod progress;
mod report;
pub mod scope;
pub mod scopes;
mod search;
mod stand;
mod value;
mod world;

pub use cmwq_core::Rule;
pub use event::Event;
pub use report::explain;
pub use scope::{Op, Scope};
pub use search::{Limits, Outcome, Progress, Violation, search};
