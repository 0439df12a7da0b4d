//! What a program of tokio's finds where it used `spawn_blocking`, and what it finds besides.

mod aborting;
mod back_pressure;
mod blocking;
mod carrying;
mod differences;
mod dropping;
mod joining;
mod locations;
mod naming;
mod races;
mod support;
