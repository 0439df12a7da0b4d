//! The service, asked by real clients.

mod client_goes_away;
mod command;
mod database_dies;
mod ending;
mod full_disk;
mod over_load;
mod serving;
mod slow_clients;
mod slow_disk;
mod support;
