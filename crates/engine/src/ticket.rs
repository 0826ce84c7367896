//! A caller's hold on a submitted request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use clef_record::Decision;
use tokio::sync::oneshot;

use crate::error::EngineError;
use crate::traits::CancelFlag;

/// What a request came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The answers.
    pub decision: Decision,
    /// Tokens of the state that were cut off, as the request allowed.
    pub truncated_tokens: usize,
    /// Tokens whose state was reused from earlier requests.
    pub reused_tokens: usize,
    /// Where the time went.
    pub timings: Timings,
}

/// Where the time of a request went; the parts add up to the whole but for scheduling noise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Waiting for a thread, before encoding and after.
    pub queue: Duration,
    /// Making tokens of text.
    pub encode: Duration,
    /// The vision tower.
    pub media: Duration,
    /// The backbone.
    pub backbone: Duration,
    /// The head.
    pub head: Duration,
}

/// Resolves to the outcome. Dropping it cancels the request: queued work is skipped, running work stops at its next
/// chunk.
#[derive(Debug)]
pub struct Ticket {
    receiver: oneshot::Receiver<Result<Outcome, EngineError>>,
    cancel: CancelFlag,
}

impl Ticket {
    pub(crate) fn new() -> (Self, Reply) {
        let (sender, receiver) = oneshot::channel();
        let cancel = CancelFlag::default();
        (Self { receiver, cancel: cancel.clone() }, Reply { sender, cancel })
    }

    /// Blocks until the outcome is there. Not for async code.
    ///
    /// # Errors
    /// As the engine reports.
    pub fn wait(mut self) -> Result<Outcome, EngineError> {
        let (_unused, placeholder) = oneshot::channel();
        let receiver = std::mem::replace(&mut self.receiver, placeholder);
        receiver.blocking_recv().unwrap_or_else(|_| Err(EngineError::dead()))
    }
}

impl Future for Ticket {
    type Output = Result<Outcome, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(context).map(|sent| sent.unwrap_or_else(|_| Err(EngineError::dead())))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.cancel.raise();
    }
}

/// The engine's end of a ticket.
#[derive(Debug)]
pub(crate) struct Reply {
    sender: oneshot::Sender<Result<Outcome, EngineError>>,
    pub(crate) cancel: CancelFlag,
}

impl Reply {
    pub(crate) fn send(self, result: Result<Outcome, EngineError>) {
        // The receiver may be gone; then nobody wants the answer.
        let _ = self.sender.send(result);
    }
}
