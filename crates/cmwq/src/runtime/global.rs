//! The runtime of the process.

use super::{Machine, Runtime};
use crate::error::Error;
use crate::params::Params;
use crate::sync::{OnceLock, PlainMutex};

impl Runtime {
    /// The process's runtime, made on first use.
    ///
    /// # Errors
    /// If its service thread cannot be created; the next call tries again.
    pub(crate) fn global() -> Result<&'static Self, Error> {
        static GLOBAL: OnceLock<&'static Runtime> = OnceLock::new();
        static MAKING: PlainMutex<()> = PlainMutex::new(());
        if let Some(runtime) = GLOBAL.get() {
            return Ok(runtime);
        }
        let _making = MAKING.lock();
        if let Some(runtime) = GLOBAL.get() {
            return Ok(runtime);
        }
        let params = Params::from_env();
        let machine = Machine::read(&params);
        let runtime = Self::start(params, machine)
            .map_err(|error| Error::thread("cannot create the service thread", error))?;
        Ok(GLOBAL.get_or_init(|| runtime))
    }
}
