//! What features of the crate add: a program of its own, so that all other tests need not be
//! compiled again with them.

mod spans;
#[allow(dead_code, unused_imports, reason = "all tests share it")]
mod support;
