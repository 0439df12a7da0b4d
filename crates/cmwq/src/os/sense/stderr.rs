//! Standard error, without the lock that Rust's library has for it: in a forked child nobody might
//! give it back.

/// Writes all of it, in one piece if the system takes it so. Nothing can be done about one that is
/// closed.
pub(crate) fn write(text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: readable for its length.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(0) => return,
            Ok(written) => rest = &rest[written..],
            Err(_) if is_interrupted() => {}
            Err(_) => return,
        }
    }
}

fn is_interrupted() -> bool {
    std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
}
