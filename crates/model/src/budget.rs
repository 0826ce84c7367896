//! Memory for pixels that wait for the model, bounded over all requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that may be held. Cloned handles share it; any thread.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    held: Arc<AtomicUsize>,
    limit: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { held: Arc::default(), limit }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Takes bytes, to be given back when the share is dropped; none if they are not to be had now. Whoever asks while
    /// nothing is held gets any number, so that a request of whatever size has its turn.
    pub(crate) fn take(&self, bytes: usize) -> Option<Share> {
        let taken = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            let sum = held.checked_add(bytes)?;
            (held == 0 || sum <= self.limit).then_some(sum)
        });
        taken.is_ok().then(|| Share { held: Arc::clone(&self.held), bytes })
    }
}

/// Bytes taken from a budget.
#[derive(Debug)]
pub(crate) struct Share {
    held: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_limit_and_come_back() {
        let budget = Budget::new(100);
        let first = budget.take(60);
        assert!(first.is_some());
        assert!(budget.take(41).is_none());
        let second = budget.take(40);
        assert!(second.is_some());
        assert!(budget.take(1).is_none());
        drop(first);
        assert!(budget.take(60).is_some());
    }

    #[test]
    fn one_that_is_larger_than_all_waits_until_it_is_alone() {
        let budget = Budget::new(100);
        let small = budget.take(1);
        assert!(budget.take(500).is_none());
        drop(small);
        let large = budget.take(500);
        assert!(large.is_some());
        assert!(budget.take(1).is_none());
    }
}
