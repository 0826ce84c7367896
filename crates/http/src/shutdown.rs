//! The life of a server as named phases, which tests and binaries can await.
//!
//! ```text
//! Loading -> Serving -> Draining -> Stopped
//!     \_________________^
//! ```

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Where a server is in its life. Phases only go forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The port is bound and everything is answered with 503, until there is a model.
    Loading,
    /// Requests are answered.
    Serving,
    /// Nothing new is accepted; running requests go on until they are done or time is up.
    Draining,
    /// Nothing runs any more.
    Stopped,
}

/// Why a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Shutdown,
    /// The engine was lost, so that nothing could be answered any more. A supervisor should start the process anew.
    EngineDead,
}

/// Phase, and the two signals that go with its end.
#[derive(Debug)]
pub(crate) struct Life {
    phase: watch::Sender<Phase>,
    /// Cancelled when nothing new is accepted any more.
    pub(crate) draining: CancellationToken,
    /// Cancelled when whatever still runs is to stop at once.
    pub(crate) ending: CancellationToken,
    /// Connections, and what they left behind.
    pub(crate) tasks: TaskTracker,
    cause: Mutex<Option<Cause>>,
}

/// What brought the end about; the first one counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    Told,
    EngineDead,
    LoadFailed(String),
}

impl Life {
    pub(crate) fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Loading),
            draining: CancellationToken::new(),
            ending: CancellationToken::new(),
            tasks: TaskTracker::new(),
            cause: Mutex::new(None),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Goes on to a phase, never back. Says whether it did.
    pub(crate) fn advance(&self, to: Phase) -> bool {
        self.phase.send_if_modified(|phase| {
            let is_later = *phase < to;
            if is_later {
                *phase = to;
            }
            is_later
        })
    }

    /// Begins the end.
    pub(crate) fn drain(&self, cause: Cause) {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(cause);
        self.advance(Phase::Draining);
        self.draining.cancel();
    }

    pub(crate) fn cause(&self) -> Cause {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or(Cause::Told)
    }
}
