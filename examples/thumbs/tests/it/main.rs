//! The service, asked by real clients.

mod client_goes_away;
mod command;
mod database_dies;
mod over_load;
mod serving;
mod slow_disk;
mod support;
