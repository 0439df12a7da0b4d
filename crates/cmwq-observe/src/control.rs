//! Asking a running process for the attributes of its queues, and changing them: the other end of
//! the socket of [`cmwq::control`], which has the protocol, and who may.
//!
//! ```
//! # let directory = std::env::temp_dir();
//! # let path = directory.join(format!("doc-client-{}.sock", std::process::id()));
//! let wq = cmwq::Workqueue::builder("disk").unbound().sysfs().build()?;
//! cmwq::control::listen(Some(&path))?;
//! // Elsewhere:
//! use cmwq_observe::control::{Client, Target};
//! let mut client = Client::connect(std::process::id())?;
//! assert_eq!(client.set(&Target::Queue("disk".to_owned()), "max_active", "4")?, "4");
//! # cmwq::control::stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod exchange;
mod find;

/// What targets of fuzzing begin with.
#[cfg(any(test, fuzzing))]
pub(crate) mod for_fuzzing {
    pub(crate) use super::client::ClientError;
    pub(crate) use super::exchange::{Exchange, Transport};
    pub(crate) use cmwq::shared::control::{Request, Target};
}

pub use client::{Client, ClientError, Item, Listing};
#[doc(inline)]
pub use cmwq::shared::control::Target;
pub use find::ConnectError;
