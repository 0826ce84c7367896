//! Who may stand in line, and what the engine thread shows of itself, as one locked structure.
//!
//! Requests wait here to be encoded and then to be fetched by the engine thread, which orders them by itself. Whoever
//! is admitted counts until its answer is on its way, wherever it is. Everything that decides admission and the end is
//! here and knows no thread's work, so it can be read in one sitting.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clef_record::Record;

use crate::engine::Health;
use crate::error::{EngineError, EngineErrorKind};
use crate::statistics::{LaneView, Published};
use crate::ticket::Reply;
use crate::traits::HeldState;
use crate::work::Work;

/// A request that waits to be encoded.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) record: Box<Record>,
    pub(crate) reply: Reply,
    /// When it was handed in.
    pub(crate) since: Instant,
}

/// A request that waits for the engine thread.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) record: Box<Record>,
    pub(crate) work: Work,
    pub(crate) reply: Reply,
    /// When it was handed in.
    pub(crate) since: Instant,
    pub(crate) encode: Duration,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<Waiting>,
    ready: Vec<Ready>,
    /// Requests admitted and not yet answered, wherever they are.
    in_flight: usize,
    encoding: usize,
    published: Published,
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
    pub(crate) fn new(capacity: usize, lanes: Vec<LaneView>) -> Self {
        let lines = Lines { published: Published { lanes, held: Vec::new() }, ..Lines::default() };
        Self { lines: Mutex::new(lines), encodable: Condvar::new(), evaluable: Condvar::new(), capacity }
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
                lines.ready.push(ready);
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

    /// The requests that became ready since the last look, the oldest first. Blocks until there is one, if the caller
    /// has nothing else to do; none when the engine ends and nothing more can come.
    pub(crate) fn collect(&self, is_idle: bool) -> Option<Vec<Ready>> {
        let mut lines = self.lines();
        loop {
            if !is_idle || !lines.ready.is_empty() {
                return Some(std::mem::take(&mut lines.ready));
            }
            if lines.health != Health::Running && lines.waiting.is_empty() && lines.encoding == 0 {
                return None;
            }
            lines = self.evaluable.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Some requests that the engine thread had are over, its lanes look like this, and perhaps other states are held.
    pub(crate) fn publish(&self, over: usize, lanes: Vec<LaneView>, held: Option<Vec<HeldState>>) {
        let mut lines = self.lines();
        lines.in_flight -= over;
        lines.published.lanes = lanes;
        if let Some(held) = held {
            lines.published.held = held;
        }
    }

    /// Looks at the number of requests admitted and not yet answered, and at what the engine thread shows.
    pub(crate) fn look<T>(&self, look: impl FnOnce(usize, &Published) -> T) -> T {
        let lines = self.lines();
        look(lines.in_flight, &lines.published)
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

    /// The engine thread is lost with some requests that it had: hands out what waits, so that it can be told.
    pub(crate) fn die(&self, lost: usize) -> Vec<Reply> {
        let mut lines = self.lines();
        lines.health = Health::Dead;
        let waiting = std::mem::take(&mut lines.waiting);
        let ready = std::mem::take(&mut lines.ready);
        lines.in_flight -= lost + waiting.len() + ready.len();
        lines.published.held.clear();
        for lane in &mut lines.published.lanes {
            lane.work = None;
        }
        drop(lines);
        self.wake_all();
        waiting.into_iter().map(|waiting| waiting.reply).chain(ready.into_iter().map(|ready| ready.reply)).collect()
    }

    fn wake_all(&self) {
        self.encodable.notify_all();
        self.evaluable.notify_all();
    }
}
