//! How the CPU's threads wait for each other.
//!
//! A graph has a barrier after each of its thousand operations. A thread that sleeps there is woken late, which on an idle
//! machine costs up to a third of the speed; one that spins there on a busy machine takes the time of whoever it waits
//! for, which costs more than half. So threads spin while the machine is ours, and sleep while it is not: the kernel says
//! after each decode how long the calling thread had to wait for a processor.

use std::time::Duration;

/// Looks at a barrier before sleeping: a few milliseconds, longer than threads wait for each other on an idle machine.
const SPINS: u64 = 100_000;

/// The share of a decode's time without a processor from which on the machine counts as busy.
const BUSY: f64 = 0.03;

/// The share up to which it counts as idle, if so for [`CALM_DECODES`] in a row.
const IDLE: f64 = 0.01;
const CALM_DECODES: u32 = 3;

/// Decides after each decode how threads wait in the next one.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// Time that the calling thread had waited for a processor when last asked, in nanoseconds.
    waited: Option<u64>,
    calm: u32,
    mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    /// Nothing was measured yet: threads sleep.
    #[default]
    Unknown,
    Spinning,
    Sleeping,
}

impl Patience {
    /// Marks the start of a decode.
    pub(crate) fn start(&mut self) {
        self.waited = waited_for_processor();
    }

    /// Takes note of a decode that took `time`.
    pub(crate) fn end(&mut self, time: Duration) {
        let (Some(before), Some(after)) = (self.waited, waited_for_processor()) else { return };
        let share = after.saturating_sub(before) as f64 / (time.as_nanos() as f64).max(1.0);
        let mode = self.next(share);
        if mode != self.mode {
            let spins = if mode == Mode::Spinning { SPINS } else { 0 };
            // SAFETY: no requirements.
            let is_set = unsafe { clef_sys::clef_set_barrier_spins(spins) };
            tracing::debug!(is_set, ?mode, waited_for_processor = share, "how threads wait for each other");
            self.mode = mode;
        }
    }

    fn next(&mut self, share: f64) -> Mode {
        if share > BUSY {
            self.calm = 0;
            return Mode::Sleeping;
        }
        self.calm = if share <= IDLE { self.calm.saturating_add(1) } else { 0 };
        match self.mode {
            Mode::Unknown if self.calm > 0 => Mode::Spinning,
            Mode::Sleeping if self.calm >= CALM_DECODES => Mode::Spinning,
            mode => mode,
        }
    }
}

/// Time that the calling thread was ready to run and did not, in nanoseconds; none where the system does not tell.
fn waited_for_processor() -> Option<u64> {
    // "time on a processor, time waiting for one, number of turns": Documentation/scheduler/sched-stats.rst
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(shares: &[f64]) -> Mode {
        let mut patience = Patience::default();
        for &share in shares {
            patience.mode = patience.next(share);
        }
        patience.mode
    }

    #[test]
    fn threads_spin_on_an_idle_machine_and_sleep_on_a_busy_one() {
        assert_eq!(after(&[]), Mode::Unknown);
        assert_eq!(after(&[0.0]), Mode::Spinning);
        assert_eq!(after(&[0.5]), Mode::Sleeping);
        assert_eq!(after(&[0.0, 0.0, 0.04]), Mode::Sleeping);
    }

    #[test]
    fn it_takes_some_calm_to_spin_again() {
        assert_eq!(after(&[0.5, 0.0, 0.0]), Mode::Sleeping);
        assert_eq!(after(&[0.5, 0.0, 0.0, 0.0]), Mode::Spinning);
        assert_eq!(after(&[0.5, 0.0, 0.02, 0.0, 0.0]), Mode::Sleeping);
        assert_eq!(after(&[0.0, 0.02, 0.02]), Mode::Spinning);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_tells_how_long_a_thread_waited() {
        assert!(waited_for_processor().is_some());
    }
}
