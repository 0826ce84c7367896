//! Trying again: how often, and after which pauses.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::options::Patience;
use crate::progress::{Phase, Reporter};

/// What a try must have brought for the count to begin anew. One byte would do for a server that sends one byte a
/// connection, and a file of gigabytes.
const BYTES_THAT_COUNT: u64 = 1 << 20;

/// How long a pause goes on without asking whether to stop.
const SLICE: Duration = Duration::from_millis(50);

/// The tries that one file, or one request, has.
pub(crate) struct Tries<'a> {
    patience: &'a Patience,
    failed: u32,
    contradictions: u32,
    is_at_start: bool,
}

impl<'a> Tries<'a> {
    pub(crate) fn new(patience: &'a Patience) -> Self {
        Self { patience, failed: 0, contradictions: 0, is_at_start: false }
    }

    /// For the first request of all: somebody who has no network waits to be told so. A network that goes away later
    /// may come back.
    pub(crate) fn for_first_request(patience: &'a Patience) -> Self {
        Self { is_at_start: true, ..Self::new(patience) }
    }

    /// Counts a failed try that brought `new_bytes`, and waits for the next one.
    ///
    /// # Errors
    /// With the failure itself if it would only happen again, or has happened too often; or if it is said to stop.
    pub(crate) fn after(
        &mut self,
        failure: Error,
        new_bytes: u64,
        file_bytes: u64,
        reporter: &mut Reporter<'_>,
    ) -> Result<()> {
        let is_of_no_use = match failure.retry() {
            Retry::Never => true,
            Retry::Once | Retry::Patiently => self.is_at_start && failure.kind() == ErrorKind::Unreachable,
        };
        if is_of_no_use {
            return Err(failure);
        }
        self.failed = if new_bytes >= BYTES_THAT_COUNT { 1 } else { self.failed + 1 };
        self.contradictions += u32::from(failure.retry() == Retry::Once);
        if self.failed >= self.patience.tries.max(1) || self.contradictions > 1 {
            let count = format!(" (tried {} times in a row)", self.failed);
            return Err(if self.failed > 1 { failure.and(count) } else { failure });
        }
        let pause = self.pause(&failure)?;
        tracing::warn!("{}; trying again in {:.1} s", failure.fault(), pause.as_secs_f64());
        wait(pause, file_bytes, reporter)
    }

    fn pause(&self, failure: &Error) -> Result<Duration> {
        let doubled = self.patience.first_pause.saturating_mul(1 << (self.failed - 1).min(16));
        let own = doubled.min(self.patience.longest_pause);
        let Some(asked) = failure.retry_after() else {
            return Ok(own);
        };
        if asked > self.patience.longest_retry_after {
            let message = format!("{}, and asks to come back in {} seconds", failure.fault(), asked.as_secs());
            return Err(Error::new(ErrorKind::Server, message));
        }
        Ok(own.max(asked))
    }
}

fn wait(pause: Duration, file_bytes: u64, reporter: &mut Reporter<'_>) -> Result<()> {
    let end = Instant::now() + pause;
    loop {
        reporter.report(Phase::Pausing, file_bytes)?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(SLICE));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    const QUICK: Patience = Patience {
        tries: 3,
        first_pause: Duration::ZERO,
        longest_pause: Duration::ZERO,
        longest_retry_after: Duration::from_secs(1),
    };

    fn broken() -> Error {
        Error::new(ErrorKind::Interrupted, "broken").transient()
    }

    /// How many failures of a kind are put up with, at most 50.
    fn tries_that_are_made(new_bytes: u64) -> usize {
        let mut callback = |_: &crate::Progress<'_>| ControlFlow::Continue(());
        let mut reporter = Reporter::new(&mut callback, 1, None);
        let mut tries = Tries::new(&QUICK);
        (1..=50).find(|_| tries.after(broken(), new_bytes, 0, &mut reporter).is_err()).unwrap_or(50)
    }

    #[test]
    fn only_real_progress_begins_the_count_anew() {
        assert_eq!(tries_that_are_made(0), 3);
        assert_eq!(tries_that_are_made(BYTES_THAT_COUNT - 1), 3);
        assert_eq!(tries_that_are_made(BYTES_THAT_COUNT), 50);
    }

    #[test]
    fn what_would_only_happen_again_is_not_tried_again() {
        let mut callback = |_: &crate::Progress<'_>| ControlFlow::Continue(());
        let mut reporter = Reporter::new(&mut callback, 1, None);
        let mut tries = Tries::new(&QUICK);
        let lasting = Error::new(ErrorKind::Gated, "gated");
        assert_eq!(tries.after(lasting, 0, 0, &mut reporter).unwrap_err().kind(), ErrorKind::Gated);
        let long = broken().with_retry_after(Some(Duration::from_secs(2)));
        let error = tries.after(long, 0, 0, &mut reporter).unwrap_err();
        assert!(error.kind() == ErrorKind::Server && error.message().contains("2 seconds"), "{error}");
    }

    #[test]
    fn a_contradiction_is_an_accident_only_once() {
        let mut callback = |_: &crate::Progress<'_>| ControlFlow::Continue(());
        let mut reporter = Reporter::new(&mut callback, 1, None);
        let patience = Patience { tries: 50, ..QUICK };
        let mut tries = Tries::new(&patience);
        let contradiction = || Error::new(ErrorKind::Protocol, "5 bytes, not 4").worth_one_retry();
        tries.after(contradiction(), 0, 0, &mut reporter).unwrap();
        tries.after(broken(), 0, 0, &mut reporter).unwrap();
        let error = tries.after(contradiction(), 0, 0, &mut reporter).unwrap_err();
        assert_eq!(error.message(), "5 bytes, not 4 (tried 3 times in a row)");
    }

    #[test]
    fn a_pause_can_be_cut_short() {
        let mut callback = |progress: &crate::Progress<'_>| {
            assert_eq!(progress.phase, Phase::Pausing);
            ControlFlow::Break(())
        };
        let mut reporter = Reporter::new(&mut callback, 1, None);
        let patience =
            Patience { first_pause: Duration::from_secs(60), longest_pause: Duration::from_secs(60), ..QUICK };
        let error = Tries::new(&patience).after(broken(), 0, 0, &mut reporter).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
}
