//! The contract with a model: two traits.
//!
//! The engine decides whose turn it is, the model how a turn is computed. Work is cut into steps of one chunk of tokens
//! so that the engine can change its mind between them: a short request passes a long one, and work that nobody waits
//! for any more is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clef_record::{Prompt, Record};

use crate::error::Refusal;

/// Turns records into prompts, on several threads at once, before they are queued: so the queue knows token counts.
pub trait Encode: Send + Sync + 'static {
    /// Encodes one record.
    ///
    /// # Errors
    /// If the record cannot be asked of this model.
    fn encode(&self, record: &Record) -> Result<Prompt, Refusal>;
}

/// Computes logits, chunk by chunk, in lanes that do not see each other. Lives on the engine thread.
///
/// An answer depends on its prompt alone: not on what other lanes do, nor on what was held when it was begun.
pub trait Evaluate: Send + 'static {
    /// The longest prompt that each lane takes, in tokens; at least one lane. Lane 0 takes every prompt that the
    /// encoder lets through. Asked once, before anything else.
    fn lanes(&self) -> Vec<usize>;

    /// How many steps a prompt would take if it were begun now. Cheap; may be an estimate.
    fn steps(&self, prompt: &Prompt) -> usize;

    /// Starts reading a prompt in a free lane, from as much of it as is held already.
    ///
    /// # Errors
    /// If the lane cannot be made ready; it is free then. [`EvaluateError::NoLane`] from another lane than the first takes
    /// it out of use and costs the prompt nothing.
    fn begin(&mut self, lane: LaneId, prompt: &Arc<Prompt>) -> Result<Begun, EvaluateError>;

    /// Reads the next chunk in each of `lanes`, all busy and no two the same, and answers where it was the last.
    /// Results are in the order of `lanes`; a lane that answered or failed is free, and never another's fault.
    fn step(&mut self, lanes: &[LaneId]) -> Vec<Result<Step, EvaluateError>>;

    /// Frees a busy lane whose answer nobody waits for any more. What it has read so far may be kept.
    fn abandon(&mut self, lane: LaneId);

    /// The states that are kept for later prompts, the most recently used first.
    fn held(&self) -> Vec<HeldState>;
}

/// A place where one prompt is read at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub usize);

/// How a prompt starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// Tokens that need not be computed because an earlier state was reused.
    pub reused_tokens: usize,
    /// Steps to the answer; at least one.
    pub steps: usize,
}

/// What a step came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// There is more to read.
    Reading {
        /// Steps to the answer; at least one.
        steps: usize,
    },
    /// That was the last chunk.
    Answered(Evaluation),
}

/// What came of a prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evaluation {
    /// Logits per question, options in prompt order.
    pub logits: Vec<Vec<f32>>,
    /// Time in the vision tower, over all steps.
    pub media: Duration,
    /// Time in the backbone, over all steps; time to bring back or keep states is part of it.
    pub backbone: Duration,
    /// Time in the head, over all steps.
    pub head: Duration,
}

/// A state that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldState {
    /// Its tokens, the fixed prefix included.
    pub tokens: usize,
    /// The lengths at which a prompt can go on from it, ascending; the last is `tokens`.
    pub boundaries: Vec<usize>,
    /// The memory it takes.
    pub bytes: usize,
    /// How often it was reused.
    pub uses: u64,
}

/// Why a prompt has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// The model failed on this prompt; later ones may well succeed.
    #[error("{0}")]
    Failed(String),
    /// There is no memory for the lane. The prompt waits for another.
    #[error("there is no memory to read another request beside the first")]
    NoLane,
}

/// Says whether somebody still waits. Cheap to read from any thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Nobody waits any more.
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag was raised.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
