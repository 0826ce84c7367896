//! Ending in good order when told to: Ctrl-C, or a supervisor's SIGTERM or SIGHUP.

use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{Failure, STOPPED};

type Action = Box<dyn Fn() + Send>;

/// What the first signal does.
static ACTION: Mutex<Option<Action>> = Mutex::new(None);

/// Has the first signal do something, such as stopping a run, in place of whatever it did before. The next one ends the
/// program at once. Signals that the program was started to ignore, as `nohup` has it, stay ignored.
pub(crate) fn on_first(action: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let before = ACTION.lock().unwrap_or_else(PoisonError::into_inner).replace(Box::new(action));
    if before.is_some() {
        return Ok(());
    }
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
    let mut signals = Signals::new(heard).context("signals cannot be handled")?;
    std::thread::spawn(move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                clef_api::exit_now(STOPPED.into());
            }
            if let Some(action) = &*ACTION.lock().unwrap_or_else(PoisonError::into_inner) {
                action();
            }
        }
    });
    Ok(())
}

/// Whether the program was started to ignore a signal, where the system says so.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
