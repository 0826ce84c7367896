//! Faults on purpose (`--debug-hooks`), so that tests can see what becomes of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clef_engine::{Begun, Evaluate, EvaluateError, HeldState, LaneId, Prompt, Step};
use clef_server::flags::Hooks;

/// An evaluator that is slow, or whose thread dies, when told so; else the one inside.
pub(crate) struct Hooked<E> {
    inner: E,
    hooks: Hooks,
    begun: u64,
    /// Lanes whose delay is still to come. It comes with the first step, when the lane is seen to be busy.
    fresh: BTreeSet<LaneId>,
}

impl<E> Hooked<E> {
    pub(crate) fn new(inner: E, hooks: Hooks) -> Self {
        Self { inner, hooks, begun: 0, fresh: BTreeSet::new() }
    }
}

impl<E: Evaluate> Evaluate for Hooked<E> {
    fn lanes(&self) -> Vec<usize> {
        self.inner.lanes()
    }

    fn steps(&self, prompt: &Prompt) -> usize {
        self.inner.steps(prompt)
    }

    fn begin(&mut self, lane: LaneId, prompt: &Arc<Prompt>) -> Result<Begun, EvaluateError> {
        if let Some(limit) = self.hooks.die_after
            && self.begun >= limit
        {
            panic!("--debug-hooks die-after={limit}");
        }
        self.begun += 1;
        self.fresh.insert(lane);
        self.inner.begin(lane, prompt)
    }

    fn step(&mut self, lanes: &[LaneId]) -> Vec<Result<Step, EvaluateError>> {
        for lane in lanes {
            if self.fresh.remove(lane) && self.hooks.request_delay > Duration::ZERO {
                std::thread::sleep(self.hooks.request_delay);
            }
        }
        self.inner.step(lanes)
    }

    fn abandon(&mut self, lane: LaneId) {
        self.inner.abandon(lane);
    }

    fn held(&self) -> Vec<HeldState> {
        self.inner.held()
    }
}
