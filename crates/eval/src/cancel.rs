//! Stopping a run from outside.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A switch that stops a run: no further record is asked, and nobody goes on waiting for a busy server.
///
/// Clones are the same switch, and it stays thrown. A record that is being answered is still answered.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Shared>);

#[derive(Default)]
struct Shared {
    cancelled: Mutex<bool>,
    thrown: Condvar,
}

impl Cancel {
    /// A switch that nobody has thrown.
    pub fn new() -> Self {
        Self::default()
    }

    /// Throws the switch. From any thread, but not from a signal handler itself.
    pub fn cancel(&self) {
        *self.0.cancelled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.thrown.notify_all();
    }

    /// Whether the switch was thrown.
    pub fn is_cancelled(&self) -> bool {
        *self.0.cancelled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks for `duration`, or until the switch is thrown; whether it was.
    pub fn wait(&self, duration: Duration) -> bool {
        let deadline = Instant::now() + duration;
        let mut cancelled = self.0.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if *cancelled || left.is_zero() {
                return *cancelled;
            }
            (cancelled, _) = self.0.thrown.wait_timeout(cancelled, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thrown_switch_ends_every_wait() {
        let cancel = Cancel::new();
        assert!(!cancel.wait(Duration::ZERO));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| cancel.wait(Duration::from_secs(600)));
            cancel.clone().cancel();
            assert!(waiter.join().expect("the waiter does not panic"));
        });
        assert!(cancel.is_cancelled() && cancel.wait(Duration::from_secs(600)));
    }
}
