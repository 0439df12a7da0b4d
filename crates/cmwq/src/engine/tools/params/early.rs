//! Settings from before the library's first use: parameters, until they are read, and whether it is
//! frozen.

use super::Params;
use crate::detect::method::Detect;
use crate::os::sync::plain::{Mutex, MutexGuard, PoisonError};

/// See the module header.
pub(crate) struct Early {
    settings: Vec<(String, String)>,
    pub(crate) detect: Option<Detect>,
    pub(crate) is_configured: bool,
    pub(crate) were_read: bool,
    /// Kept up to date afterwards.
    pub(crate) is_frozen: bool,
}

static EARLY: Mutex<Early> = Mutex::new(Early {
    settings: Vec::new(),
    detect: None,
    is_configured: false,
    were_read: false,
    is_frozen: false,
});

/// See `fork`.
pub(crate) type EarlyGuard = MutexGuard<'static, Early>;

pub(crate) fn lock_early() -> EarlyGuard {
    EARLY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parameters are being read: applies the early settings, and takes no more.
pub(crate) fn apply_early(params: &mut Params) {
    let mut early = lock_early();
    early.were_read = true;
    early.apply(params);
}

impl Early {
    /// The last value of a name is the one that counts.
    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.to_owned(), value));
    }

    pub(crate) fn apply(&self, params: &mut Params) {
        for (name, value) in &self.settings {
            // It was valid when it was set.
            let _ = params.set(name, value);
        }
        params.detect = self.detect.or(params.detect);
    }
}
