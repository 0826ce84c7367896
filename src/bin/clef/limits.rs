//! An end for what takes too much memory or time and cannot be stopped.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_millis(10);

/// What something may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes beside those that the program has already.
    pub(crate) memory: u64,
    pub(crate) time: Duration,
}

/// Watches until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch(#[expect(dead_code, reason = "dropping it ends the thread")] Sender<()>);

/// Ends the program with a line of error when `what` is over a limit. Where the system does not say how much memory the
/// program takes, only time is watched.
pub(crate) fn watch(limits: Limits, what: &'static str) -> Watch {
    let (before, since) = (taken(), Instant::now());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        while receiver.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let more = taken().zip(before).map(|(now, before)| now.saturating_sub(before));
            if more.is_some_and(|more| more > limits.memory) {
                end(&format!("{what} takes more than {} MiB of memory", limits.memory >> 20));
            }
            if since.elapsed() > limits.time {
                end(&format!("{what} takes longer than {} s", limits.time.as_secs()));
            }
        }
    });
    Watch(sender)
}

fn end(message: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "error: {message}");
    clef_api::exit_now(1)
}

/// Bytes of memory that the program takes now.
fn taken() -> Option<u64> {
    memory_stats::memory_stats().map(|stats| stats.physical_mem as u64)
}
