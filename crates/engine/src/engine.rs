//! The handle that callers share, and the life of the threads behind it.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use clef_record::Record;

use crate::error::{EngineError, EngineErrorKind};
use crate::queue::{Queue, Waiting};
use crate::statistics::{Counters, Statistics, count};
use crate::ticket::Ticket;
use crate::traits::{Encode, Evaluate};
use crate::worker;

/// How an engine is sized.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Requests that may be admitted and unanswered at once; one more is refused.
    pub queue_capacity: usize,
    /// Threads that encode.
    pub encode_threads: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { queue_capacity: 256, encode_threads: 2 }
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
    queue: Arc<Queue>,
    counters: Arc<Counters>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Engine {
    /// Starts the threads. `model` moves to its own.
    ///
    /// # Errors
    /// If the operating system refuses a thread.
    pub fn start(
        encoder: impl Encode,
        mut model: impl Evaluate,
        config: &EngineConfig,
    ) -> Result<Self, std::io::Error> {
        let queue = Arc::new(Queue::new(config.queue_capacity.max(1)));
        let counters = Arc::new(Counters::default());
        let encoder: Arc<dyn Encode> = Arc::new(encoder);
        let inner = Inner { queue, counters, threads: Mutex::default() };
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
            inner.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
            Ok::<_, std::io::Error>(())
        };
        for _ in 0..config.encode_threads.max(1) {
            let (queue, counters, encoder) =
                (Arc::clone(&inner.queue), Arc::clone(&inner.counters), Arc::clone(&encoder));
            spawn("clef-encode", Box::new(move || worker::encode_loop(&queue, &counters, &*encoder)))?;
        }
        let (queue, counters) = (Arc::clone(&inner.queue), Arc::clone(&inner.counters));
        spawn("clef-engine", Box::new(move || worker::evaluate_loop(&queue, &counters, &mut model)))?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Hands in a request. Returns at once; the work goes on behind the ticket.
    ///
    /// # Errors
    /// If the queue is full or the engine takes no work.
    pub fn submit(&self, record: Record) -> Result<Ticket, EngineError> {
        let (ticket, reply) = Ticket::new();
        let waiting = Waiting { record: Box::new(record), reply, since: Instant::now() };
        match self.inner.queue.admit(waiting) {
            Ok(()) => {
                count(&self.inner.counters.admitted);
                Ok(ticket)
            }
            Err(error) => {
                if error.kind() == EngineErrorKind::QueueFull {
                    count(&self.inner.counters.rejected);
                }
                Err(error)
            }
        }
    }

    /// How the engine is, now.
    pub fn health(&self) -> Health {
        self.inner.queue.health()
    }

    /// Counts since the start.
    pub fn statistics(&self) -> Statistics {
        let (in_flight, running) = self.inner.queue.load();
        self.inner.counters.read(in_flight, running)
    }

    /// Stops taking requests, waits until all that were taken are answered, and ends the threads. Blocks.
    pub fn shut_down(&self) {
        self.inner.end();
    }
}

impl Inner {
    fn end(&self) {
        self.queue.drain();
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
