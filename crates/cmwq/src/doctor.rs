//! What this machine offers, for people who want to know.

use crate::detect::Detect;
use crate::error::Error;
use crate::runtime::Runtime;

/// What [`diagnose`] found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The source in use.
    pub detect: Detect,
}

/// Looks at the machine and at the running library.
///
/// # Errors
/// If the runtime cannot be started.
pub fn diagnose() -> Result<Diagnosis, Error> {
    let runtime = Runtime::global()?;
    Ok(Diagnosis { detect: runtime.detect })
}
