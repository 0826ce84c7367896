//! Stopping a run from outside.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A wait without an end is made of such.
const FAR: Duration = Duration::from_secs(60 * 60);

/// A switch that stops a run: no further record is asked, and nobody goes on waiting for a busy server.
///
/// Clones are the same switch, and it stays thrown. A record that is being answered is still answered, by a
/// [`Remote`](crate::Remote) if it does not take longer than [`cancel_grace`](crate::RemoteOptions::cancel_grace).
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

    /// Blocks for `duration`, or until the switch is thrown; whether it was. A duration beyond the clock's range never ends.
    pub fn wait(&self, duration: Duration) -> bool {
        let deadline = Instant::now().checked_add(duration);
        let mut cancelled = self.0.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = deadline.map_or(FAR, |deadline| deadline.saturating_duration_since(Instant::now()));
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
            let waiters = [600, u64::MAX].map(|seconds| {
                let cancel = &cancel;
                scope.spawn(move || cancel.wait(Duration::from_secs(seconds)))
            });
            cancel.clone().cancel();
            for waiter in waiters {
                assert!(waiter.join().expect("the waiter does not panic"));
            }
        });
        assert!(cancel.is_cancelled() && cancel.wait(Duration::from_secs(600)));
    }
}
