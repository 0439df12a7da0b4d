//! The book's chapters, whose Rust snippets `cargo test` compiles and runs. What is not Rust is
//! looked at by `tests/book.rs`.

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
