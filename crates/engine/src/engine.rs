//! The handle that callers share, and the life of the threads behind it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use clef_record::Record;

use crate::answers::Answers;
use crate::desk;
use crate::encoding;
use crate::error::{EngineError, EngineErrorKind};
use crate::queue::{Queue, Waiting};
use crate::statistics::{Counters, LaneView, Statistics, count};
use crate::ticket::Ticket;
use crate::traits::{Encode, Evaluate, HeldState};

/// How an engine is sized.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Requests that may be admitted and unanswered at once; one more is refused.
    pub queue_capacity: usize,
    /// Threads that encode.
    pub encode_threads: usize,
    /// Answers that are remembered, so that a request asked again costs nothing; 0 for none. One takes its prompt's
    /// tokens, 4 bytes each, and its logits.
    pub answer_cache: usize,
    /// Tokens that side lanes may read together in one step; a lane alone may always read its chunk. Of no account
    /// with a single side lane.
    pub max_batch_tokens: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { queue_capacity: 256, encode_threads: 2, answer_cache: 0, max_batch_tokens: 2_048 }
    }
}

/// How the engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Health {
    /// Takes and answers requests.
    #[default]
    Running,
    /// Answers what it has, takes nothing new.
    Draining,
    /// Ended in good order.
    Stopped,
    /// The engine thread is lost.
    Dead,
}

/// A running engine. Cloned handles share it; it ends when told to, or when the last handle goes.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What an engine's threads and its handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) counters: Counters,
    pub(crate) answers: Answers,
}

impl Engine {
    /// Starts the threads. `model` moves to its own.
    ///
    /// # Errors
    /// If the model has no lane, or the operating system refuses a thread.
    pub fn start(encoder: impl Encode, mut model: impl Evaluate, config: &EngineConfig) -> Result<Self, io::Error> {
        let lanes = model.lanes();
        if lanes.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the model has no lane"));
        }
        let free = lanes.iter().map(|&max_tokens| LaneView { max_tokens, work: None }).collect();
        let shared = Arc::new(Shared {
            queue: Queue::new(config.queue_capacity.max(1), free),
            counters: Counters::default(),
            answers: Answers::new(config.answer_cache),
        });
        let encoder: Arc<dyn Encode> = Arc::new(encoder);
        let inner = Inner { shared, threads: Mutex::default() };
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
            inner.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
            Ok::<_, io::Error>(())
        };
        for _ in 0..config.encode_threads.max(1) {
            let (shared, encoder) = (Arc::clone(&inner.shared), Arc::clone(&encoder));
            spawn("clef-encode", Box::new(move || encoding::run(&shared, &*encoder)))?;
        }
        let (shared, max_batch_tokens) = (Arc::clone(&inner.shared), config.max_batch_tokens);
        spawn("clef-engine", Box::new(move || desk::run(&shared, &lanes, max_batch_tokens, &mut model)))?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Hands in a request. Returns at once; the work goes on behind the ticket.
    ///
    /// # Errors
    /// If the queue is full or the engine takes no work.
    pub fn submit(&self, record: Record) -> Result<Ticket, EngineError> {
        let (ticket, reply) = Ticket::new();
        let waiting = Waiting { record: Box::new(record), reply, since: Instant::now() };
        let Shared { queue, counters, .. } = &*self.inner.shared;
        match queue.admit(waiting) {
            Ok(()) => {
                count(&counters.admitted);
                Ok(ticket)
            }
            Err(error) => {
                if error.kind() == EngineErrorKind::QueueFull {
                    count(&counters.rejected);
                }
                Err(error)
            }
        }
    }

    /// How the engine is, now.
    pub fn health(&self) -> Health {
        self.inner.shared.queue.health()
    }

    /// Counts since the start.
    pub fn statistics(&self) -> Statistics {
        let Shared { queue, counters, .. } = &*self.inner.shared;
        queue.look(|in_flight, published| counters.read(in_flight, published))
    }

    /// The lanes and what is read in them now; lane 0 first. There are always as many.
    pub fn lanes(&self) -> Vec<LaneView> {
        self.inner.shared.queue.look(|_, published| published.lanes.clone())
    }

    /// The states that the model holds for later prompts, the most recently used first.
    pub fn held(&self) -> Vec<HeldState> {
        self.inner.shared.queue.look(|_, published| published.held.clone())
    }

    /// Stops taking requests, waits until all that were taken are answered, and ends the threads. Blocks.
    pub fn shut_down(&self) {
        self.inner.end();
    }
}

impl Inner {
    fn end(&self) {
        self.shared.queue.drain();
        // Held while joining, so that whoever else tells the engine to end waits as well.
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // The loops catch panics themselves; a thread that panicked all the same has nothing left to hand over.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end();
    }
}
