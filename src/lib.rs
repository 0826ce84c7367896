//! What the binaries share: flags, which file they name, fetching and opening it with progress, and the log.
//!
//! Not a library for others: that is `clef-api`.

mod fetch;
pub mod flags;
mod logging;
mod model_file;
mod opening;
mod words;

pub use fetch::{FetchFlags, Fetched};
pub use flags::{FileFlags, ModelFlags, model_flag_ids, normalized};
pub use logging::{log_filter, start_logging};
pub use model_file::ModelFile;
pub use opening::{byte_bar, find_model, open_with_progress, open_writer_with_progress};
pub use words::{one_line, plain, size};

/// What both programs say of their version, after their name: git revision, llama.cpp build and backends decide what is
/// answered, so all are named.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("CLEF_GIT_REVISION"),
    ")\nllama.cpp ",
    env!("CLEF_LLAMA_BUILD"),
    "\nbackends: ",
    env!("CLEF_BACKENDS"),
);
