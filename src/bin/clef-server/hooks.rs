//! Faults on purpose (`--debug-hooks`), so that tests can see what becomes of them.

use std::time::Duration;

use clef_engine::{Evaluate, EvaluateError, Evaluation, Job};
use clef_server::flags::Hooks;

/// An evaluator that is slow, or whose thread dies, when told so; else the one inside.
pub(crate) struct Hooked<E> {
    inner: E,
    hooks: Hooks,
    evaluated: u64,
}

impl<E> Hooked<E> {
    pub(crate) fn new(inner: E, hooks: Hooks) -> Self {
        Self { inner, hooks, evaluated: 0 }
    }
}

impl<E: Evaluate> Evaluate for Hooked<E> {
    fn evaluate(&mut self, jobs: &[Job<'_>]) -> Vec<Result<Evaluation, EvaluateError>> {
        if self.hooks.request_delay > Duration::ZERO {
            std::thread::sleep(self.hooks.request_delay);
        }
        if let Some(limit) = self.hooks.die_after
            && self.evaluated >= limit
        {
            panic!("--debug-hooks die-after={limit}");
        }
        self.evaluated += jobs.len() as u64;
        self.inner.evaluate(jobs)
    }
}
