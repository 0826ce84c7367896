//! What the engine thread has in hand: prompts, and for each of them everybody who asked for it.
//!
//! Requests that ask for the same [work](Work) become members of one task, whether it waits or runs. It is evaluated
//! once; each member gets an answer in its own words, and the task is dropped when its last member has gone.

use std::collections::BTreeMap;
use std::time::Duration;

use clef_record::{Decision, Record};

use crate::error::{EngineError, EngineErrorKind};
use crate::planner::TaskId;
use crate::queue::Ready;
use crate::statistics::{LaneView, LaneWork};
use crate::ticket::{Outcome, Reply, Timings};
use crate::traits::{Begun, Evaluation, LaneId};
use crate::work::Work;

/// Everything in hand.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tasks: BTreeMap<TaskId, Task>,
    next: u64,
}

/// A prompt and who asked for it.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) work: Work,
    pub(crate) run: Option<Run>,
    /// In the order in which they came.
    members: Vec<Member>,
}

/// A task's way through a lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) lane: LaneId,
    pub(crate) begun: Begun,
    /// Steps to the answer.
    pub(crate) left: usize,
}

#[derive(Debug)]
struct Member {
    ready: Ready,
    /// It came when the task was running already, so part of that time was before its own.
    is_late: bool,
}

/// What a request becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A task of its own.
    New(TaskId),
    /// A member of one that was there.
    Joined,
}

impl Tasks {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(crate) fn take(&mut self, ready: Ready) -> Taken {
        if let Some(task) = self.tasks.values_mut().find(|task| task.work == ready.work) {
            task.members.push(Member { is_late: task.run.is_some(), ready });
            return Taken::Joined;
        }
        let id = TaskId(self.next);
        self.next += 1;
        let work = ready.work.clone();
        self.tasks.insert(id, Task { work, run: None, members: vec![Member { ready, is_late: false }] });
        Taken::New(id)
    }

    pub(crate) fn get(&self, id: TaskId) -> &Task {
        self.tasks.get(&id).expect("the planner knows no other tasks")
    }

    pub(crate) fn get_mut(&mut self, id: TaskId) -> &mut Task {
        self.tasks.get_mut(&id).expect("the planner knows no other tasks")
    }

    pub(crate) fn in_lane(&self, lane: LaneId) -> TaskId {
        let is_there = |task: &Task| task.run.is_some_and(|run| run.lane == lane);
        let found = self.tasks.iter().find(|(_, task)| is_there(task));
        *found.expect("a busy lane has a task").0
    }

    pub(crate) fn remove(&mut self, id: TaskId) -> Task {
        self.tasks.remove(&id).expect("a task is removed once")
    }

    /// Lets members go whose callers are gone. Returns their number, and the tasks that nobody waits for any more.
    pub(crate) fn sweep(&mut self) -> (usize, Vec<(TaskId, Option<Run>)>) {
        let mut gone = 0;
        for task in self.tasks.values_mut() {
            gone += task.sweep();
        }
        let left = self.tasks.extract_if(.., |_, task| task.members.is_empty());
        (gone, left.map(|(id, task)| (id, task.run)).collect())
    }

    /// What the lanes look like.
    pub(crate) fn view(&self, max_tokens: &[usize]) -> Vec<LaneView> {
        let mut lanes: Vec<LaneView> =
            max_tokens.iter().map(|&max_tokens| LaneView { max_tokens, work: None }).collect();
        for task in self.tasks.values() {
            if let Some(run) = task.run {
                lanes[run.lane.0].work = Some(task.view(run));
            }
        }
        lanes
    }

    /// Everybody, at the end of all things.
    pub(crate) fn into_replies(self) -> Vec<Reply> {
        self.tasks.into_values().flat_map(|task| task.members).map(|member| member.ready.reply).collect()
    }
}

impl Task {
    /// Lets members go whose callers are gone, and returns their number.
    pub(crate) fn sweep(&mut self) -> usize {
        let before = self.members.len();
        self.members.retain(|member| !member.ready.reply.cancel.is_raised());
        before - self.members.len()
    }

    /// Each member's answer to an evaluation. The first one who was there from the start reports what it took; for the
    /// others it was no work, only a wait.
    pub(crate) fn outcomes(self, evaluation: &Evaluation) -> Vec<(Reply, Result<Outcome, EngineError>)> {
        let reused = self.run.map_or(0, |run| run.begun.reused_tokens);
        let nothing = Evaluation::default();
        let members = self.members.into_iter().enumerate();
        let outcome = |(index, Member { ready, is_late })| {
            let (spent, reused_tokens) =
                if index == 0 && !is_late { (evaluation, reused) } else { (&nothing, ready.work.tokens()) };
            let result = answer(&ready.record, &ready.work, &evaluation.logits).map(|decision| Outcome {
                decision,
                truncated_tokens: ready.work.prompt().truncated_tokens,
                reused_tokens,
                timings: timings(ready.since.elapsed(), ready.encode, spent),
            });
            (ready.reply, result)
        };
        members.map(outcome).collect()
    }

    /// Each member's share of a failure.
    pub(crate) fn failures(self, error: &EngineError) -> Vec<(Reply, Result<Outcome, EngineError>)> {
        self.members.into_iter().map(|member| (member.ready.reply, Err(error.clone()))).collect()
    }

    fn view(&self, run: Run) -> LaneWork {
        let (prompt_tokens, Begun { reused_tokens, steps }) = (self.work.tokens(), run.begun);
        let done = steps.saturating_sub(run.left);
        LaneWork {
            requests: self.members.len(),
            prompt_tokens,
            reused_tokens,
            computed_tokens: prompt_tokens.saturating_sub(reused_tokens) * done / steps.max(1),
        }
    }
}

/// What logits mean to a record.
pub(crate) fn answer(record: &Record, work: &Work, logits: &[Vec<f32>]) -> Result<Decision, EngineError> {
    Decision::from_logits(record, work.prompt(), logits).map_err(|error| {
        EngineError::new(EngineErrorKind::Fault, format!("the model's logits cannot be answers: {error}"))
    })
}

/// A request's time from end to end, in parts: what was not spent on it was spent waiting for others.
fn timings(whole: Duration, encode: Duration, spent: &Evaluation) -> Timings {
    let Evaluation { media, backbone, head, logits: _ } = *spent;
    let queue = whole.saturating_sub(encode + media + backbone + head);
    Timings { queue, encode, media, backbone, head }
}
