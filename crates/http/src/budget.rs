//! The memory of all bodies together, as one number with a limit.
//!
//! Nobody waits here: whoever would pass the limit is told to come again. Waiting while holding a part could leave many
//! half-read bodies waiting for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a body that are not counted, so that small requests pass whatever the large ones do.
const FREE_BYTES: usize = 64 << 10;

/// Counts bytes of bodies in flight.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0) })
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// A share that holds nothing yet.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { budget: Arc::clone(self), held: 0 }
    }
}

/// One body's part of a budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    held: usize,
}

impl Share {
    /// Grows to a body of this size, or says that there is no room.
    pub(crate) fn grow_to(&mut self, body_bytes: usize) -> Result<(), NoRoom> {
        let wanted = body_bytes.saturating_sub(FREE_BYTES);
        let Some(more) = wanted.checked_sub(self.held).filter(|&more| more > 0) else { return Ok(()) };
        let limit = self.budget.limit;
        let taken = self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(more).filter(|&sum| sum <= limit)
        });
        match taken {
            Ok(_) => {
                self.held = wanted;
                Ok(())
            }
            Err(_) => Err(NoRoom { limit }),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.held, Ordering::Relaxed);
    }
}

/// All bodies together would be over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom {
    /// The limit, in bytes.
    pub(crate) limit: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_refused_over_the_limit_and_given_back() {
        let budget = Budget::new(100);
        let mut small = budget.share();
        assert_eq!(small.grow_to(FREE_BYTES), Ok(()));
        assert_eq!(budget.used(), 0);
        let mut first = budget.share();
        assert_eq!(first.grow_to(FREE_BYTES + 60), Ok(()));
        let mut second = budget.share();
        assert_eq!(second.grow_to(FREE_BYTES + 41), Err(NoRoom { limit: 100 }));
        assert_eq!(second.grow_to(FREE_BYTES + 40), Ok(()));
        assert_eq!(second.grow_to(FREE_BYTES + 40), Ok(()));
        assert_eq!(budget.used(), 100);
        drop(first);
        assert_eq!(budget.used(), 40);
        drop(second);
        assert_eq!(budget.used(), 0);
    }
}
