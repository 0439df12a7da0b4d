//! An HTTP service that stores pictures in a database and makes them smaller, on cmwq.
//!
//! Start reading at [`service`]: what a request does. [`store`] is where pictures are kept,
//! [`pool`] where the work is done, [`bench`] what compares pools.

pub mod bench;
mod body;
mod health;
pub mod limits;
mod linger;
pub mod picture;
pub mod pool;
mod process;
pub mod queues;
pub mod server;
pub mod service;
pub mod signals;
pub mod store;
