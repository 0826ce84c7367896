//! The contract with a model: two traits.

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

/// Computes logits. Lives on the engine thread; created there too, so it need not be `Send`-friendly inside.
pub trait Evaluate: Send + 'static {
    /// Evaluates the prompts of one planned batch and returns a result for each, in order.
    ///
    /// An implementation looks at [`Job::cancel`] between chunks of work and stops there with
    /// [`EvaluateError::Cancelled`]; it must not let a failed job change another's answer.
    fn evaluate(&mut self, jobs: &[Job<'_>]) -> Vec<Result<Evaluation, EvaluateError>>;
}

/// One prompt of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// What to evaluate.
    pub prompt: &'a Prompt,
    /// Ends of token prefixes whose state is worth keeping for later requests, ascending.
    pub keep: &'a [usize],
    /// Raised when nobody waits for the answer any more.
    pub cancel: &'a CancelFlag,
}

/// What came of a job.
#[derive(Debug, Clone, Default)]
pub struct Evaluation {
    /// Logits per question, options in prompt order.
    pub logits: Vec<Vec<f32>>,
    /// Tokens that did not have to be computed because an earlier state was reused.
    pub reused_tokens: usize,
    /// Time in the vision tower.
    pub media: Duration,
    /// Time in the backbone.
    pub backbone: Duration,
    /// Time in the head.
    pub head: Duration,
}

/// Why a job has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// The job's cancel flag was raised.
    #[error("the request was cancelled")]
    Cancelled,
    /// The model failed on this job; later jobs may well succeed.
    #[error("{0}")]
    Failed(String),
}

/// Says whether somebody still waits. Cheap to read from any thread.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Nobody waits any more.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag was raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
