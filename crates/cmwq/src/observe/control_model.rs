//! Without a system there is no socket.

pub(crate) fn stop() {}
