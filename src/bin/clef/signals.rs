//! Ending in good order when told to: Ctrl-C, or a supervisor's SIGTERM or SIGHUP.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;

use crate::failure::{Failure, STOPPED};

/// Has the first signal do something, such as stopping a run. The next one ends the program at once.
pub(crate) fn on_first(action: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let is_told = AtomicBool::new(false);
    let told = move || {
        if is_told.swap(true, Ordering::Relaxed) {
            clef_api::exit_now(STOPPED.into());
        }
        action();
    };
    Ok(ctrlc::set_handler(told).context("signals cannot be handled")?)
}
