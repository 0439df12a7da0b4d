//! The book's chapters and README, whose Rust snippets `cargo test` compiles and runs. What is not
//! Rust is looked at by `tests/book.rs`.

macro_rules! chapters {
    ($($name:ident)*) => {
        $(
            #[doc = include_str!(concat!("../../src/", stringify!($name), ".md"))]
            pub mod $name {}
        )*
    };
}

chapters! { why tour choosing blocking limits machines c commands tools tuning faq glossary }
chapters! { production migrating }

#[doc = include_str!("../../src/async.md")]
pub mod asynchronous {}

/// The library's page in the registry.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
pub mod readme {}
