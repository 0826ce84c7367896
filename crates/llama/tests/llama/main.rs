//! The wrapper against real, damaged and hostile files, and against the reference's hidden states.

#![expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]

mod backbone;
mod context;
mod gguf;
mod kernels;
mod projector;
mod saved;
mod support;
mod tokenizer;
mod virtual_file;
mod vision;

/// Counts what Rust code allocates, for the tests on claims that a file makes about itself.
#[global_allocator]
static ALLOCATOR: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;
