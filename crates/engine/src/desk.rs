//! What the engine thread does: it takes what is ready, asks the planner for a turn, lets the model do it, and hands out
//! what came of it. Between turns it looks up, so whatever happened meanwhile counts from the next one on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::engine::Shared;
use crate::error::{EngineError, EngineErrorKind};
use crate::planner::{Planner, TaskId, Turn};
use crate::queue::Ready;
use crate::statistics::{add, count};
use crate::tasks::{Run, Taken, Tasks};
use crate::ticket::{Outcome, Reply};
use crate::traits::{Evaluate, EvaluateError, Evaluation, HeldState, LaneId, Step};
use crate::work::State;

/// Evaluates requests until the engine ends. A panic is the end: the model's state is unknown after it.
pub(crate) fn run(shared: &Shared, lanes: &[usize], max_batch_tokens: usize, model: &mut dyn Evaluate) {
    let mut desk = Desk {
        shared,
        lanes,
        planner: Planner::new(lanes, max_batch_tokens),
        tasks: Tasks::default(),
        gone: 0,
        outbox: Vec::new(),
    };
    let worked = catch_unwind(AssertUnwindSafe(|| {
        desk.send(Some(model.held()));
        while desk.turn(model) {}
    }));
    match worked {
        Ok(()) => shared.queue.stopped(),
        Err(panic) => desk.die(&*panic),
    }
}

struct Desk<'s> {
    shared: &'s Shared,
    /// The longest prompt of each lane.
    lanes: &'s [usize],
    planner: Planner<State>,
    tasks: Tasks,
    /// Requests that left since anything was published.
    gone: usize,
    /// Answers since anything was published.
    outbox: Vec<(Reply, Result<Outcome, EngineError>)>,
}

impl Desk<'_> {
    /// One turn; blocks if there is nothing to do, and is false at the end of all work.
    fn turn(&mut self, model: &mut dyn Evaluate) -> bool {
        let Some(arrived) = self.shared.queue.collect(self.tasks.is_empty()) else { return false };
        if self.take(arrived) {
            self.send(None);
        }
        self.sweep(model);
        let tasks = &self.tasks;
        match self.planner.next(|task| model.steps(tasks.get(task).work.prompt())) {
            Turn::Begin(lane, task) => self.begin(model, lane, task),
            Turn::Step(lanes) => self.step(model, &lanes),
            Turn::Rest => {}
        }
        true
    }

    /// Takes requests in; says whether there was one.
    fn take(&mut self, arrived: Vec<Ready>) -> bool {
        let is_any = !arrived.is_empty();
        for ready in arrived {
            let (tokens, state) = (ready.work.tokens(), ready.work.state());
            match self.tasks.take(ready) {
                Taken::New(task) => self.planner.push(task, tokens, state),
                Taken::Joined => count(&self.shared.counters.merged),
            }
        }
        is_any
    }

    /// Drops requests whose callers are gone, and what only they had asked for.
    fn sweep(&mut self, model: &mut dyn Evaluate) {
        let (gone, left) = self.tasks.sweep();
        if gone == 0 {
            return;
        }
        self.leave(gone);
        let mut is_abandoned = false;
        for (task, run) in left {
            match run {
                None => self.planner.forget(task),
                Some(run) => {
                    self.planner.free(run.lane);
                    model.abandon(run.lane);
                    is_abandoned = true;
                }
            }
        }
        self.send(is_abandoned.then(|| model.held()));
    }

    fn begin(&mut self, model: &mut dyn Evaluate, lane: LaneId, id: TaskId) {
        let task = self.tasks.get_mut(id);
        let begun = model.begin(lane, task.work.prompt());
        let held = model.held();
        match begun {
            Ok(begun) => {
                task.run = Some(Run { lane, begun, left: begun.steps });
                self.planner.begun(lane, begun.steps, task.work.tokens().saturating_sub(begun.reused_tokens));
            }
            Err(EvaluateError::NoLane) if lane != LaneId(0) => {
                self.planner.lose(lane, id, task.work.tokens(), task.work.state());
            }
            Err(error) => self.fail(id, &fault(&error)),
        }
        self.send(Some(held));
    }

    fn step(&mut self, model: &mut dyn Evaluate, lanes: &[LaneId]) {
        let mut results = model.step(lanes).into_iter();
        let mut ended = Vec::new();
        for &lane in lanes {
            match results.next() {
                Some(Ok(Step::Reading { steps })) => {
                    let task = self.tasks.in_lane(lane);
                    self.planner.stepped(lane, steps);
                    if let Some(run) = &mut self.tasks.get_mut(task).run {
                        run.left = steps;
                    }
                }
                Some(Ok(Step::Answered(evaluation))) => ended.push((lane, Ok(evaluation))),
                Some(Err(error)) => ended.push((lane, Err(fault(&error)))),
                None => {
                    // A model that forgets a lane has not freed it either.
                    model.abandon(lane);
                    ended.push((lane, Err(EngineError::new(EngineErrorKind::Fault, "the model returned nothing"))));
                }
            }
        }
        // Asked while all tasks are in hand: should it panic, everybody is told.
        let held = (!ended.is_empty()).then(|| model.held());
        // Whoever came during this step may have asked for just what it answers.
        let arrived = self.shared.queue.collect(false).unwrap_or_default();
        self.take(arrived);
        for (lane, result) in ended {
            self.planner.free(lane);
            let task = self.tasks.in_lane(lane);
            match result {
                Ok(evaluation) => self.answer(task, &evaluation),
                Err(error) => self.fail(task, &error),
            }
        }
        self.send(held);
    }

    fn answer(&mut self, id: TaskId, evaluation: &Evaluation) {
        let Shared { counters, answers, .. } = self.shared;
        let mut task = self.tasks.remove(id);
        self.leave(task.sweep());
        let reused = task.run.map_or(0, |run| run.begun.reused_tokens);
        add(&counters.computed_tokens, task.work.tokens().saturating_sub(reused));
        answers.remember(&task.work, &evaluation.logits);
        let tokens = task.work.tokens();
        for (reply, result) in task.outcomes(evaluation) {
            match &result {
                Ok(outcome) => counters.answer(tokens, outcome.reused_tokens),
                Err(error) => {
                    count(&counters.failed);
                    tracing::error!("a request failed: {error}");
                }
            }
            self.outbox.push((reply, result));
        }
    }

    fn fail(&mut self, id: TaskId, error: &EngineError) {
        let mut task = self.tasks.remove(id);
        self.leave(task.sweep());
        let failures = task.failures(error);
        add(&self.shared.counters.failed, failures.len());
        tracing::error!(requests = failures.len(), "a prompt failed: {error}");
        self.outbox.extend(failures);
    }

    fn leave(&mut self, gone: usize) {
        self.gone += gone;
        add(&self.shared.counters.cancelled, gone);
    }

    /// Shows how things stand, then hands out answers. Places are free before: whoever gets an answer may come again at
    /// once.
    fn send(&mut self, held: Option<Vec<HeldState>>) {
        let outbox = std::mem::take(&mut self.outbox);
        let over = std::mem::take(&mut self.gone) + outbox.len();
        self.shared.queue.publish(over, self.tasks.view(self.lanes), held);
        for (reply, result) in outbox {
            reply.send(result);
        }
    }

    fn die(self, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<&str>().copied();
        let what = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
        tracing::error!("the engine thread panicked: {what}");
        let Shared { queue, counters, .. } = self.shared;
        let mut lost = self.tasks.into_replies();
        lost.extend(queue.die(self.gone + lost.len()));
        add(&counters.failed, lost.len());
        for reply in lost {
            reply.send(Err(EngineError::dead()));
        }
    }
}

fn fault(error: &EvaluateError) -> EngineError {
    EngineError::new(EngineErrorKind::Fault, error.to_string())
}
