//! Ending in good order when told to: Ctrl-C, or a supervisor's SIGTERM or SIGHUP.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;

use crate::failure::{Failure, STOPPED};

type Action = Box<dyn Fn() + Send>;

/// What the first signal does.
static ACTION: Mutex<Option<Action>> = Mutex::new(None);
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Has the first signal do something, such as stopping a run, in place of whatever it did before. The next one ends the
/// program at once.
pub(crate) fn on_first(action: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let before = ACTION.lock().unwrap_or_else(PoisonError::into_inner).replace(Box::new(action));
    if before.is_none() {
        ctrlc::set_handler(told).context("signals cannot be handled")?;
    }
    Ok(())
}

fn told() {
    if IS_TOLD.swap(true, Ordering::Relaxed) {
        clef_api::exit_now(STOPPED.into());
    }
    if let Some(action) = &*ACTION.lock().unwrap_or_else(PoisonError::into_inner) {
        action();
    }
}
