//! An end for what takes too much memory and cannot be stopped.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often it is looked at: in this time a processor fills some tens of megabytes.
const INTERVAL: Duration = Duration::from_millis(10);

/// Watches until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch(#[expect(dead_code, reason = "dropping it ends the thread")] Option<Sender<()>>);

/// Ends the program with a line of error when it takes so many bytes more than now. Where nobody says how much memory the
/// program takes, nothing is watched.
pub(crate) fn watch(limit: u64, what: &'static str) -> Watch {
    let Some(before) = taken() else { return Watch(None) };
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        while receiver.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if taken().is_some_and(|now| now.saturating_sub(before) > limit) {
                let _ = writeln!(std::io::stderr(), "error: {what} takes more than {} MiB of memory", limit >> 20);
                clef_api::exit_now(1);
            }
        }
    });
    Watch(Some(sender))
}

/// Bytes of memory that the program takes now.
fn taken() -> Option<u64> {
    memory_stats::memory_stats().map(|stats| stats.physical_mem as u64)
}
