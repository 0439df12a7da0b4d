//! Helping between pods: `boards` has plain boards, and what may be expected of a search.

mod boards;
mod choose;
mod habit;
mod layout;
mod queuer;
mod short_items;
