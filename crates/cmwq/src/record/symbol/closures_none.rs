//! In place of `closures`, under model checkers and where the assembler is not known to understand
//! it.

/// Says nothing.
macro_rules! tell {
    ($run:path, $of:ty) => {};
}
pub(crate) use tell;

pub(crate) fn name(_: usize) -> Option<&'static str> {
    None
}

pub(crate) fn all() -> Vec<(usize, &'static str)> {
    Vec::new()
}
