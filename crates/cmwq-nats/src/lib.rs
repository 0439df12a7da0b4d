//! A workqueue that machines share.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod address;
mod api;
mod broker;
mod dead;
mod error;
mod inside;
mod item;
mod leftovers;
mod lock;
mod looks;
mod machine;
mod names;
mod pulls;
mod queue;
mod serve;
mod settings;
mod ticket;
mod timers;
mod words;

pub use async_nats::ConnectOptions;
pub use cmwq;

pub use broker::{Broker, BrokerBuilder};
pub use dead::DeadLetter;
pub use error::{Error, ErrorKind};
pub use item::Item;
pub use queue::{Backlog, QueueBuilder, SharedQueue};
pub use serve::{Failure, Server, Serving, ServingStats};
pub use ticket::{Cancelled, Ticket};
