//! Model files from the Hugging Face hub and from plain URLs, kept where other tools find them.
//!
//! Models are large, connections break, and a half file that is taken for a whole one fails in ways that nobody
//! connects with a download. So this crate exists to make one promise: what it fetches appears under its name when it
//! is whole and has the checksum that the hub names, and not before; otherwise there is an error that says what to do.
//! A broken transfer goes on where it stopped, in this run or the next; two processes that want the same file fetch it
//! once; without a network, what is in the cache is used.
//!
//! The cache is the folder that `huggingface_hub`, `llama-server -hf` and many others share, so a file that one of them
//! has fetched is not fetched again. The crate knows no model: it chooses files by their names and never opens one.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//!
//! use clef_hub::{Hub, HubOptions, ModelRequest};
//!
//! # fn main() -> clef_hub::Result<()> {
//! let hub = Hub::new(HubOptions::from_environment(|name| std::env::var_os(name))?)?;
//! let request = ModelRequest::parse("user/repo:Q4_K_M")?;
//! let model = hub.fetch_model(&request, &mut |progress| {
//!     eprintln!("{}: {} of {:?} bytes", progress.file, progress.file_bytes, progress.file_total);
//!     ControlFlow::Continue(())
//! })?;
//! eprintln!("{}", model.path().display());
//! # Ok(())
//! # }
//! ```
//!
//! Everything here blocks the thread that calls it. A [`Hub`] may be used by several threads at once.
//!
//! # What is checked
//!
//! - A file of a repository, as it arrives: its size, and the hash that the hub lists, SHA-256 for large files and
//!   git's (SHA-1) for others. A mirror that lists no hash is taken by its word if it names no SHA-256 with the file.
//! - A file of a plain URL, as it arrives: its size. An address of the hub names a SHA-256, too.
//! - A file that the cache holds: its size, where the hub is asked. It was checked when it was put there, and to read
//!   gigabytes again at each start takes longer than to load them. If a file has been damaged on the disk since, who
//!   opens it notices or nobody does; remove it and it is fetched anew.

mod blob_cache;
mod choose;
mod choose_cached;
mod client;
mod disk;
mod error;
mod fetch_model;
mod fetch_url;
mod hub;
mod listing;
mod lock;
mod options;
mod part;
mod patience;
mod progress;
mod refusal;
mod request;
mod resume;
mod text;
mod transfer;
mod url;

pub use error::{Error, ErrorKind, Result};
pub use hub::{FetchedFile, FetchedModel, Hub};
pub use options::{HubOptions, Patience, Proxies, Timeouts, Token};
pub use progress::{Phase, Progress, ProgressCallback};
pub use request::{Choice, ModelRequest, RepoId};
