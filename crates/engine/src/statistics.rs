//! What can be seen of an engine from outside: counts since the start, and what is in the lanes now.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::traits::HeldState;

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
    /// Requests that joined another one that asked for the same work.
    pub merged: u64,
    /// Requests that an earlier answer was found for.
    pub answer_cache_hits: u64,
    /// Prompt tokens of answered requests.
    pub prompt_tokens: u64,
    /// Of these, tokens that were not computed for the request: from a held state, or another request's work.
    pub reused_tokens: u64,
    /// Tokens that the model computed for prompts that it read to their end; once, however many requests asked.
    pub computed_tokens: u64,
    /// Requests waiting or running now.
    pub in_flight: u64,
    /// Of these, requests whose prompt is in a lane.
    pub running: u64,
    /// Prompt tokens in the lanes; once for requests that share a prompt.
    pub running_tokens: u64,
    /// States held for later prompts.
    pub held_states: u64,
    /// The memory they take.
    pub held_bytes: u64,
}

/// A lane, and what is read in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneView {
    /// The longest prompt that it takes.
    pub max_tokens: usize,
    /// What is read in it; none if it is free.
    pub work: Option<LaneWork>,
}

/// A prompt in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneWork {
    /// Requests that wait for it.
    pub requests: usize,
    /// Its tokens.
    pub prompt_tokens: usize,
    /// Of these, tokens of a held state that it went on from.
    pub reused_tokens: usize,
    /// Tokens computed so far, from the share of its steps that is done.
    pub computed_tokens: usize,
}

/// What the engine thread publishes, so that nobody who looks has to ask the model.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pub(crate) lanes: Vec<LaneView>,
    pub(crate) held: Vec<HeldState>,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) admitted: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) answered: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) merged: AtomicU64,
    pub(crate) answer_cache_hits: AtomicU64,
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) reused_tokens: AtomicU64,
    pub(crate) computed_tokens: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self, in_flight: usize, published: &Published) -> Statistics {
        let lanes = || published.lanes.iter().filter_map(|lane| lane.work);
        Statistics {
            admitted: self.admitted.load(Relaxed),
            rejected: self.rejected.load(Relaxed),
            answered: self.answered.load(Relaxed),
            failed: self.failed.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            merged: self.merged.load(Relaxed),
            answer_cache_hits: self.answer_cache_hits.load(Relaxed),
            prompt_tokens: self.prompt_tokens.load(Relaxed),
            reused_tokens: self.reused_tokens.load(Relaxed),
            computed_tokens: self.computed_tokens.load(Relaxed),
            in_flight: in_flight as u64,
            running: lanes().map(|work| work.requests as u64).sum(),
            running_tokens: lanes().map(|work| work.prompt_tokens as u64).sum(),
            held_states: published.held.len() as u64,
            held_bytes: published.held.iter().map(|state| state.bytes as u64).sum(),
        }
    }

    /// Counts a request that is answered, and its tokens.
    pub(crate) fn answer(&self, prompt_tokens: usize, reused_tokens: usize) {
        count(&self.answered);
        add(&self.prompt_tokens, prompt_tokens);
        add(&self.reused_tokens, reused_tokens);
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

pub(crate) fn add(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Relaxed);
}
