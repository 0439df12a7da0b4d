//! What programs call.

pub(crate) mod awaiting;
pub(crate) mod builder;
pub(crate) mod closure;
pub(crate) mod config;
pub(crate) mod early;
pub(crate) mod execute;
#[cfg(feature = "explore")]
#[doc(hidden)]
pub mod explore;
pub(crate) mod iter;
pub mod legacy;
pub(crate) mod observing;
pub(crate) mod outside;
pub(crate) mod periodic;
pub(crate) mod places;
#[doc(hidden)]
pub mod raw;
pub(crate) mod rcu;
pub(crate) mod refused;
pub(crate) mod run;
pub(crate) mod scope;
pub(crate) mod set_param;
pub(crate) mod shutdown;
pub mod system;
pub(crate) mod try_queue;
pub(crate) mod unstarted;
pub(crate) mod watching;
pub(crate) mod work;
pub(crate) mod workqueue;
