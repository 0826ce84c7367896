//! What the binaries share: flags about the model, their short spellings, the built-in model, progress and log.
//!
//! Not a library for others: that is `clef-api`.

mod built_in;
mod fetch;
pub mod flags;
mod logging;
mod model_flags;
mod progress;
mod spellings;
mod words;

pub use built_in::{BuiltIn, model_or_built_in};
pub use fetch::{FetchFlags, Fetched};
pub use logging::start_logging;
pub use model_flags::ModelFlags;
pub use progress::{byte_bar, fetch_with_progress, open_with_progress, open_writer_with_progress};
pub use spellings::normalized;
pub use words::{one_line, plain};
