//! A store on a slow disk: for tests, and to see what that does.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{Name, Store, Stored, Unavailable};

/// Another store, each of whose calls takes so much longer.
#[derive(Debug)]
pub struct Slow {
    store: Arc<dyn Store>,
    delay: Duration,
}

impl Slow {
    /// That store, so much slower.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, delay: Duration) -> Self {
        Self { store, delay }
    }

    fn wait(&self) -> &dyn Store {
        thread::sleep(self.delay);
        &*self.store
    }
}

impl Store for Slow {
    fn put(&self, name: &Name, stored: &Stored) -> Result<(), Unavailable> {
        self.wait().put(name, stored)
    }

    fn original(&self, name: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        self.wait().original(name)
    }

    fn thumbnail(&self, name: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        self.wait().thumbnail(name)
    }
}
