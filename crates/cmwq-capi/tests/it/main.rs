//! The C library as C programs see it: compiled with the machine's compiler, run as processes.
//!
//! Without a C compiler (`cc`, or what `CC` says) these tests say so and pass.

mod abi;
mod c_names;
mod combinations;
mod conformance;
mod headers;
mod installed;
mod kernel;
mod manual;
mod misuse;
mod programs;
mod refusals;
mod small_headers;
mod support;
mod symbols;
