//! The two waiting lines and who may stand in them, as one locked structure.
//!
//! Everything that decides order or admission is here and knows no thread's work, so it can be read in one sitting.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clef_record::{Prompt, Record};

use crate::engine::Health;
use crate::error::{EngineError, EngineErrorKind};
use crate::ticket::Reply;

/// A request that waits to be encoded.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) record: Box<Record>,
    pub(crate) reply: Reply,
    pub(crate) since: Instant,
}

/// A request that waits for the engine thread.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) record: Box<Record>,
    pub(crate) prompt: Prompt,
    pub(crate) reply: Reply,
    pub(crate) since: Instant,
    /// Time spent waiting for the encoder.
    pub(crate) queued: Duration,
    pub(crate) encode: Duration,
}

/// What the engine thread is at.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Running {
    pub(crate) requests: usize,
    pub(crate) tokens: usize,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<Waiting>,
    ready: VecDeque<Ready>,
    /// Requests admitted and not yet answered, wherever they are.
    in_flight: usize,
    encoding: usize,
    /// Requests that the engine thread has taken, and their tokens.
    running: Running,
    health: Health,
}

/// The shared queue; all methods may be called from any thread.
#[derive(Debug)]
pub(crate) struct Queue {
    lines: Mutex<Lines>,
    encodable: Condvar,
    evaluable: Condvar,
    capacity: usize,
}

impl Queue {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { lines: Mutex::new(Lines::default()), encodable: Condvar::new(), evaluable: Condvar::new(), capacity }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        // No code panics while it holds the lock; a poisoned one would still be consistent.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a request or says why not.
    pub(crate) fn admit(&self, waiting: Waiting) -> Result<(), EngineError> {
        let mut lines = self.lines();
        match lines.health {
            Health::Running => {}
            Health::Draining | Health::Stopped => {
                return Err(EngineError::new(EngineErrorKind::ShuttingDown, "the engine is shutting down"));
            }
            Health::Dead => return Err(EngineError::dead()),
        }
        if lines.in_flight >= self.capacity {
            return Err(EngineError::new(
                EngineErrorKind::QueueFull,
                format!("{} requests are waiting, the limit is {}", lines.in_flight, self.capacity),
            ));
        }
        lines.in_flight += 1;
        lines.waiting.push_back(waiting);
        drop(lines);
        self.encodable.notify_one();
        Ok(())
    }

    /// The next request to encode; blocks; none when the engine ends.
    pub(crate) fn next_waiting(&self) -> Option<Waiting> {
        let mut lines = self.lines();
        loop {
            if let Some(waiting) = lines.waiting.pop_front() {
                lines.encoding += 1;
                return Some(waiting);
            }
            if lines.health != Health::Running {
                return None;
            }
            lines = self.encodable.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A request came out of the encoder: ready for the engine thread, or already answered (none). Comes back as a
    /// reply to be sent if nobody is left to evaluate it. (Replies are never sent under the lock: they wake callers.)
    pub(crate) fn encoded(&self, ready: Option<Ready>) -> Option<Reply> {
        let mut lines = self.lines();
        lines.encoding -= 1;
        let refused = match ready {
            Some(ready) if lines.health != Health::Dead => {
                lines.ready.push_back(ready);
                None
            }
            other => {
                lines.in_flight -= 1;
                other.map(|ready| ready.reply)
            }
        };
        drop(lines);
        self.evaluable.notify_one();
        refused
    }

    /// The next request to evaluate, oldest first; blocks; none when the engine ends and nothing is left to do.
    pub(crate) fn next_ready(&self) -> Option<Ready> {
        let mut lines = self.lines();
        loop {
            if let Some(ready) = lines.ready.pop_front() {
                lines.running = Running { requests: 1, tokens: ready.prompt.tokens.len() };
                return Some(ready);
            }
            if lines.health != Health::Running && lines.waiting.is_empty() && lines.encoding == 0 {
                return None;
            }
            lines = self.evaluable.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A request that the engine thread took is answered.
    pub(crate) fn finished(&self) {
        let mut lines = self.lines();
        lines.in_flight -= 1;
        lines.running = Running::default();
    }

    /// Requests admitted and not yet answered, and what the engine thread is at.
    pub(crate) fn load(&self) -> (usize, Running) {
        let lines = self.lines();
        (lines.in_flight, lines.running)
    }

    pub(crate) fn health(&self) -> Health {
        self.lines().health
    }

    /// Stops admission; what was admitted is still answered.
    pub(crate) fn drain(&self) {
        let mut lines = self.lines();
        if lines.health == Health::Running {
            lines.health = Health::Draining;
        }
        drop(lines);
        self.wake_all();
    }

    /// The engine thread has ended in good order.
    pub(crate) fn stopped(&self) {
        let mut lines = self.lines();
        if lines.health != Health::Dead {
            lines.health = Health::Stopped;
        }
    }

    /// The engine thread is lost: hands out what waits, so that it can be told.
    pub(crate) fn die(&self) -> Vec<Reply> {
        let mut lines = self.lines();
        lines.health = Health::Dead;
        let waiting = std::mem::take(&mut lines.waiting);
        let ready = std::mem::take(&mut lines.ready);
        lines.in_flight -= waiting.len() + ready.len();
        drop(lines);
        self.wake_all();
        waiting.into_iter().map(|waiting| waiting.reply).chain(ready.into_iter().map(|ready| ready.reply)).collect()
    }

    fn wake_all(&self) {
        self.encodable.notify_all();
        self.evaluable.notify_all();
    }
}
