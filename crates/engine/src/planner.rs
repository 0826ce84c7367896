//! What happens next: which prompt begins, or which lanes read their next chunk.
//!
//! The engine thread asks after every step, because only then can anything be changed. All that makes one request wait
//! for another is decided here and nowhere else, without threads, clocks or a model, so that it can be tested to the
//! last case. Nothing ever waits for company: if there is work, the next turn does some.
//!
//! ```text
//! lane 0      long .  long .  long .  long long long   takes everything, the oldest first
//! side lane        short   short   B'                  takes what ends before lane 0 does
//! ```

use std::collections::VecDeque;

use crate::traits::LaneId;

/// How often the oldest waiting prompt may be passed by one that goes on from the state last read. A held state saves
/// more the longer it is, so a few are let by; but whoever came first must not wait for a crowd that came later.
pub(crate) const MAX_OVERTAKES: usize = 8;

/// With as many steps left in lane 0, waiting for its end takes less time than reading two prompts in turns.
pub(crate) const SOON_FREE_STEPS: usize = 3;

/// The name of a prompt that the engine thread has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskId(pub(crate) u64);

/// What the next turn is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Begin a prompt in a free lane. It no longer waits; the lane is busy once it has [begun](Planner::begun).
    Begin(LaneId, TaskId),
    /// Read the next chunk in each of these lanes.
    Step(Vec<LaneId>),
    /// There is nothing to do.
    Rest,
}

/// Decides on turns. `S` is a state: prompts with equal ones are better read one after another.
#[derive(Debug)]
pub(crate) struct Planner<S> {
    waiting: VecDeque<Waiting<S>>,
    main: Lane<S>,
    /// In the order in which they are to be stepped.
    sides: VecDeque<Lane<S>>,
    last_was_main: bool,
    max_batch_tokens: usize,
}

#[derive(Debug)]
struct Waiting<S> {
    task: TaskId,
    tokens: usize,
    state: S,
    /// How often a later one began where this one, as the oldest, could have begun.
    overtaken: usize,
}

#[derive(Debug)]
struct Lane<S> {
    id: LaneId,
    max_tokens: usize,
    /// The state last begun here.
    state: Option<S>,
    busy: Option<Busy>,
}

#[derive(Debug)]
struct Busy {
    steps: usize,
    tokens_per_step: usize,
}

impl<S: PartialEq> Planner<S> {
    /// For lanes that take so many tokens each, at least one; side lanes read no more than `max_batch_tokens` together.
    pub(crate) fn new(lanes: &[usize], max_batch_tokens: usize) -> Self {
        let lane = |(index, &max_tokens)| Lane { id: LaneId(index), max_tokens, state: None, busy: None };
        let mut sides: VecDeque<Lane<S>> = lanes.iter().enumerate().map(lane).collect();
        let main = sides.pop_front().expect("a model has at least one lane");
        Self { waiting: VecDeque::new(), main, sides, last_was_main: false, max_batch_tokens }
    }

    /// A prompt of so many tokens waits from now on, behind all others.
    pub(crate) fn push(&mut self, task: TaskId, tokens: usize, state: S) {
        self.waiting.push_back(Waiting { task, tokens, state, overtaken: 0 });
    }

    /// A prompt waits no longer, without having begun.
    pub(crate) fn forget(&mut self, task: TaskId) {
        self.waiting.retain(|waiting| waiting.task != task);
    }

    /// Decides. `steps` tells how many steps a waiting prompt would take if it began now.
    pub(crate) fn next(&mut self, steps: impl FnMut(TaskId) -> usize) -> Turn {
        self.begin(steps).or_else(|| self.step()).unwrap_or(Turn::Rest)
    }

    /// A prompt has begun in a lane, with so many tokens and steps before it.
    pub(crate) fn begun(&mut self, lane: LaneId, steps: usize, tokens: usize) {
        let steps = steps.max(1);
        self.lane(lane).busy = Some(Busy { steps, tokens_per_step: tokens.div_ceil(steps) });
    }

    /// A side lane cannot be had, now or later: the prompt that was to begin there waits again, before all others.
    pub(crate) fn lose(&mut self, lane: LaneId, task: TaskId, tokens: usize, state: S) {
        self.sides.retain(|side| side.id != lane);
        self.waiting.push_front(Waiting { task, tokens, state, overtaken: 0 });
    }

    /// A lane has so many steps left.
    pub(crate) fn stepped(&mut self, lane: LaneId, left: usize) {
        if let Some(busy) = &mut self.lane(lane).busy {
            busy.steps = left.max(1);
        }
    }

    /// A lane is free.
    pub(crate) fn free(&mut self, lane: LaneId) {
        self.lane(lane).busy = None;
    }

    fn lane(&mut self, id: LaneId) -> &mut Lane<S> {
        let mut lanes = std::iter::once(&mut self.main).chain(&mut self.sides);
        lanes.find(|lane| lane.id == id).expect("lanes are named by the planner")
    }

    fn begin(&mut self, mut steps: impl FnMut(TaskId) -> usize) -> Option<Turn> {
        let Some(main) = &self.main.busy else {
            return begin_in(&mut self.main, &mut self.waiting, |_| true);
        };
        let left = main.steps;
        if left <= SOON_FREE_STEPS {
            return None;
        }
        // Whoever asks about the state that lane 0 is reading goes on from it afterwards: it is not read twice at once.
        let being_read = self.main.state.as_ref();
        let mut free: Vec<&mut Lane<S>> = self.sides.iter_mut().filter(|lane| lane.busy.is_none()).collect();
        free.sort_by_key(|lane| lane.id);
        free.into_iter().find_map(|lane| {
            let max_tokens = lane.max_tokens;
            begin_in(lane, &mut self.waiting, |waiting| {
                waiting.tokens <= max_tokens && being_read != Some(&waiting.state) && steps(waiting.task) <= left
            })
        })
    }

    fn step(&mut self) -> Option<Turn> {
        let is_side_busy = self.sides.iter().any(|lane| lane.busy.is_some());
        let is_mains_turn = !is_side_busy || !self.last_was_main;
        if self.main.busy.is_some() && is_mains_turn {
            self.last_was_main = true;
            return Some(Turn::Step(vec![self.main.id]));
        }
        self.last_was_main = false;
        is_side_busy.then(|| Turn::Step(self.side_batch()))
    }

    /// The side lanes whose turn it is, as many as may read together. Whoever is left out is among the first next time.
    fn side_batch(&mut self) -> Vec<LaneId> {
        let mut tokens = 0;
        let mut batch = Vec::new();
        let mut later = VecDeque::new();
        for lane in std::mem::take(&mut self.sides) {
            let fits = lane
                .busy
                .as_ref()
                .filter(|busy| batch.is_empty() || tokens + busy.tokens_per_step <= self.max_batch_tokens);
            if let Some(busy) = fits {
                tokens += busy.tokens_per_step;
                batch.push(lane.id);
                later.push_back(lane);
            } else {
                self.sides.push_back(lane);
            }
        }
        self.sides.append(&mut later);
        batch.sort();
        batch
    }
}

/// The oldest that may begin in a free lane, or one of the state last read there.
fn begin_in<S: PartialEq>(
    lane: &mut Lane<S>,
    waiting: &mut VecDeque<Waiting<S>>,
    mut may: impl FnMut(&Waiting<S>) -> bool,
) -> Option<Turn> {
    let oldest = waiting.iter().position(&mut may)?;
    let mut chosen = oldest;
    if waiting[oldest].overtaken < MAX_OVERTAKES {
        let is_next = |next: &Waiting<S>| lane.state.as_ref() == Some(&next.state) && may(next);
        chosen = waiting.iter().skip(oldest).position(is_next).map_or(oldest, |offset| oldest + offset);
    }
    if chosen != oldest {
        waiting[oldest].overtaken += 1;
    }
    let Waiting { task, state, .. } = waiting.remove(chosen)?;
    lane.state = Some(state);
    Some(Turn::Begin(lane.id, task))
}

#[cfg(test)]
mod tests;
