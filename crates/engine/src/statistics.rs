//! Counts since the start, for metrics pages.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::queue::Running;

/// A reading of the engine's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests admitted.
    pub admitted: u64,
    /// Requests refused because the queue was full.
    pub rejected: u64,
    /// Requests answered.
    pub answered: u64,
    /// Requests that failed or were refused by the encoder.
    pub failed: u64,
    /// Requests whose callers went away.
    pub cancelled: u64,
    /// Prompt tokens of answered requests.
    pub prompt_tokens: u64,
    /// Of these, tokens reused from earlier states.
    pub reused_tokens: u64,
    /// Requests waiting or running now.
    pub in_flight: u64,
    /// Of these, requests being evaluated.
    pub running: u64,
    /// Prompt tokens of the requests being evaluated.
    pub running_tokens: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) admitted: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) answered: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) reused_tokens: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self, in_flight: usize, running: Running) -> Statistics {
        Statistics {
            admitted: self.admitted.load(Relaxed),
            rejected: self.rejected.load(Relaxed),
            answered: self.answered.load(Relaxed),
            failed: self.failed.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            prompt_tokens: self.prompt_tokens.load(Relaxed),
            reused_tokens: self.reused_tokens.load(Relaxed),
            in_flight: in_flight as u64,
            running: running.requests as u64,
            running_tokens: running.tokens as u64,
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
