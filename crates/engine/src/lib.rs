//! Admission, queue, and the one thread that owns the model.
//!
//! Why it exists: a model is one big mutable thing and its callers are many. A request is admitted or refused at once
//! ([`Engine::submit`]), encoded on a small pool of threads, and waits in a bounded queue until the engine thread takes
//! it. The caller holds a [`Ticket`]; dropping it cancels the work, and nobody else's.
//!
//! This crate knows neither llama.cpp nor HTTP: what it drives are two small traits, [`Encode`] and [`Evaluate`].
//!
//! ```text
//! submit -> admitted? -> encode pool -> ready queue -> engine thread -> Ticket
//!            | full: an answer          (token counts known)   | panics: pending work fails, Health::Dead
//! ```

mod engine;
mod error;
mod queue;
mod statistics;
mod ticket;
mod traits;
mod worker;

pub use engine::{Engine, EngineConfig, Health};
pub use error::{EngineError, EngineErrorKind, Refusal, RefusalKind};
pub use statistics::Statistics;
pub use ticket::{Outcome, Ticket, Timings};
pub use traits::{CancelFlag, Encode, Evaluate, EvaluateError, Evaluation, Job};
