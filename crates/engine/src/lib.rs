//! Admission, queue, and the one thread that owns the model.
//!
//! Why it exists: a model is one big mutable thing and its callers are many. A request is admitted or refused at once
//! ([`Engine::submit`]), encoded on a small pool of threads, and waits in a bounded queue until the engine thread takes
//! it. That thread gives the model one chunk of work at a time and decides between chunks what comes next, so a short
//! request passes a long one and work that nobody waits for any more is dropped. Requests that ask for the same work
//! share it. The caller holds a [`Ticket`]; dropping it cancels the work, and nobody else's.
//!
//! This crate knows neither llama.cpp nor HTTP: what it drives are two small traits, [`Encode`] and [`Evaluate`].
//!
//! ```text
//! submit -> admitted? -> encode pool -> desk (same work together) -> planner -> lanes of the model -> Ticket
//!            | full: an answer    | asked before: an answer                      | panics: pending work fails
//! ```

mod answers;
mod desk;
mod encoding;
mod engine;
mod error;
mod planner;
mod queue;
#[cfg(test)]
mod random;
mod state_cache;
mod statistics;
mod tasks;
mod ticket;
mod traits;
mod work;

// Part of the traits' signatures: whoever wraps a model need not know the crate it comes from.
pub use clef_record::Prompt;
pub use engine::{Engine, EngineConfig, Health};
pub use error::{EngineError, EngineErrorKind, Refusal, RefusalKind};
pub use state_cache::{Hit, StateCache};
pub use statistics::{LaneView, LaneWork, Statistics};
pub use ticket::{Outcome, Ticket, Timings};
pub use traits::{Begun, Encode, Evaluate, EvaluateError, Evaluation, HeldState, LaneId, Step};
