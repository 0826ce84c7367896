//! Tests of the whole path, from a request body to its answer. One binary, because each links llama.cpp.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(clippy::print_stdout, reason = "measured differences are printed for docs/correctness.md")]

mod answers;
mod command;
mod damage;
mod decide;
mod fetching;
mod generate;
mod golden;
mod head;
mod images;
mod inspect;
mod layering;
mod library;
mod measuring;
mod overrides;
mod placement;
mod reuse;
mod server;
mod serving;
mod serving_images;
mod shown_again;
mod split;
