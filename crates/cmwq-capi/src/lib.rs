//! `libcmwq`: the kernel's workqueue interface for C and C++ programs.
//!
//! One function per C symbol, without logic of its own: pointers and numbers become the library's
//! types, and what it answers becomes numbers. What users read is `include/linux/workqueue.h`;
//! `libcmwq.map` lists what is exported.
//!
//! Nothing unwinds into C, and what cannot be done is answered: [`face`].
#![expect(unreachable_pub, reason = "what is public is public as a symbol")]

mod alloc;
mod attrs;
mod cpu;
mod debug;
mod delay;
mod devres;
mod face;
mod fork;
mod handle;
mod hooks;
mod item;
mod misc;
mod observing;
mod once;
mod queueing;
mod rcu;
mod settings;
mod show;
mod simple;
mod system;
mod timers;
mod twins;
mod waiting;
