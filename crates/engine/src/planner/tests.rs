//! Cases told one by one, and a bench that holds any turn against the rules.

use super::*;
use crate::random::Random;

/// A model of nothing but lanes: drives a planner and checks every turn against the rules, told in other words.
struct Bench {
    planner: Planner<u8>,
    max_tokens: Vec<usize>,
    /// Name, tokens, state, steps, and overtakes as the oldest; in order of arrival.
    waiting: Vec<(TaskId, usize, u8, usize, usize)>,
    /// Steps left and the prompt's tokens per step.
    busy: Vec<Option<(TaskId, usize, usize)>>,
    states: Vec<Option<u8>>,
    max_batch_tokens: usize,
    last: Option<Turn>,
    arrived: u64,
    ended: Vec<TaskId>,
    /// How often in a row each side lane was left out of a batch.
    left_out: Vec<usize>,
}

impl Bench {
    fn new(lanes: &[usize], max_batch_tokens: usize) -> Self {
        Self {
            planner: Planner::new(lanes, max_batch_tokens),
            max_tokens: lanes.to_vec(),
            waiting: Vec::new(),
            busy: vec![None; lanes.len()],
            states: vec![None; lanes.len()],
            max_batch_tokens,
            last: None,
            arrived: 0,
            ended: Vec::new(),
            left_out: vec![0; lanes.len()],
        }
    }

    fn push(&mut self, tokens: usize, state: u8, steps: usize) -> TaskId {
        let task = TaskId(self.arrived);
        self.arrived += 1;
        self.waiting.push((task, tokens, state, steps, 0));
        self.planner.push(task, tokens, state);
        task
    }

    fn forget(&mut self, index: usize) {
        let (task, ..) = self.waiting.remove(index);
        self.planner.forget(task);
        self.ended.push(task);
    }

    fn abandon(&mut self, lane: usize) {
        if let Some((task, ..)) = self.busy[lane].take() {
            self.planner.free(LaneId(lane));
            self.ended.push(task);
        }
    }

    fn turn(&mut self) -> Turn {
        let steps: Vec<(TaskId, usize)> = self.waiting.iter().map(|&(task, _, _, steps, _)| (task, steps)).collect();
        let turn = self.planner.next(|task| steps.iter().find(|(known, _)| *known == task).expect("it waits").1);
        match &turn {
            Turn::Begin(lane, task) => self.begin(lane.0, *task),
            Turn::Step(lanes) => self.step(lanes),
            Turn::Rest => {
                assert!(self.waiting.is_empty(), "rests while {:?} wait", self.waiting);
                assert!(self.busy.iter().all(Option::is_none), "rests while lanes are busy");
            }
        }
        if !matches!(turn, Turn::Begin(..)) {
            self.last = Some(turn.clone());
        }
        turn
    }

    fn may_begin(&self, lane: usize, tokens: usize, state: u8, steps: usize) -> bool {
        match self.busy[0] {
            None => lane == 0,
            Some((_, left, _)) => {
                let is_read_already = self.states[0] == Some(state);
                lane > 0 && left > 3 && tokens <= self.max_tokens[lane] && !is_read_already && steps <= left
            }
        }
    }

    fn begin(&mut self, lane: usize, task: TaskId) {
        assert!(self.busy[lane].is_none(), "{task:?} begins in a lane that is busy");
        let eligible: Vec<usize> = (0..self.waiting.len())
            .filter(|&index| {
                let (_, tokens, state, steps, _) = self.waiting[index];
                self.may_begin(lane, tokens, state, steps)
            })
            .collect();
        let chosen = self.waiting.iter().position(|waiting| waiting.0 == task).expect("it waits");
        assert!(eligible.contains(&chosen), "{task:?} may not begin in lane {lane}");
        let oldest = eligible[0];
        if chosen != oldest {
            assert_eq!(self.states[lane], Some(self.waiting[chosen].2), "only the last state may pass");
            self.waiting[oldest].4 += 1;
            assert!(self.waiting[oldest].4 <= 8, "{:?} was passed too often", self.waiting[oldest].0);
        }
        let (task, tokens, state, steps, _) = self.waiting.remove(chosen);
        self.states[lane] = Some(state);
        self.busy[lane] = Some((task, steps, tokens.div_ceil(steps)));
        self.planner.begun(LaneId(lane), steps, tokens);
    }

    fn step(&mut self, lanes: &[LaneId]) {
        assert!(lanes.is_sorted_by(|a, b| a < b) && !lanes.is_empty());
        for lane in 0..self.busy.len() {
            if self.busy[lane].is_none() {
                let may = |&(_, tokens, state, steps, _): &_| self.may_begin(lane, tokens, state, steps);
                let begins = self.waiting.iter().any(may);
                assert!(!begins, "a prompt could begin in lane {lane}");
            }
        }
        let is_side_busy = self.busy[1..].iter().any(Option::is_some);
        if self.busy[0].is_some() && is_side_busy {
            let was_main = matches!(&self.last, Some(Turn::Step(last)) if last == &[LaneId(0)]);
            assert_eq!(lanes == [LaneId(0)], !was_main, "lane 0 and the others take turns");
        }
        if lanes != [LaneId(0)] {
            assert!(!lanes.contains(&LaneId(0)), "lane 0 is stepped alone");
            let tokens = |lane: &LaneId| self.busy[lane.0].expect("only busy lanes are stepped").2;
            let together: usize = lanes.iter().map(tokens).sum();
            assert!(lanes.len() == 1 || together <= self.max_batch_tokens, "{lanes:?} read {together} tokens");
            for lane in 1..self.busy.len() {
                let is_left_out = self.busy[lane].is_some() && !lanes.contains(&LaneId(lane));
                self.left_out[lane] = if is_left_out { self.left_out[lane] + 1 } else { 0 };
                assert!(self.left_out[lane] < self.busy.len() - 1, "nobody is left out for ever");
            }
        }
        for &lane in lanes {
            let (task, left, _) = self.busy[lane.0].as_mut().expect("only busy lanes are stepped");
            *left -= 1;
            if *left == 0 {
                self.ended.push(*task);
                self.busy[lane.0] = None;
                self.planner.free(lane);
            } else {
                self.planner.stepped(lane, *left);
            }
        }
    }
}

fn begin(lane: usize, task: TaskId) -> Turn {
    Turn::Begin(LaneId(lane), task)
}

fn step(lane: usize) -> Turn {
    Turn::Step(vec![LaneId(lane)])
}

#[test]
fn nothing_to_do_is_rest() {
    assert_eq!(Bench::new(&[100], 100).turn(), Turn::Rest);
}

#[test]
fn one_lane_reads_one_after_another() {
    let mut bench = Bench::new(&[100], 100);
    let (first, second) = (bench.push(10, 1, 2), bench.push(10, 2, 1));
    let turns: Vec<Turn> = (0..6).map(|_| bench.turn()).collect();
    assert_eq!(turns, [begin(0, first), step(0), step(0), begin(0, second), step(0), Turn::Rest]);
}

#[test]
fn a_short_prompt_passes_a_long_one_in_turns_with_it() {
    let mut bench = Bench::new(&[100, 10], 100);
    let long = bench.push(90, 1, 9);
    assert_eq!([bench.turn(), bench.turn(), bench.turn()], [begin(0, long), step(0), step(0)]);
    let short = bench.push(10, 2, 2);
    let turns: Vec<Turn> = (0..6).map(|_| bench.turn()).collect();
    assert_eq!(turns, [begin(1, short), step(1), step(0), step(1), step(0), step(0)]);
}

#[test]
fn nothing_begins_beside_a_lane_that_is_soon_free() {
    let mut bench = Bench::new(&[100, 10], 100);
    bench.push(40, 1, 4);
    bench.turn();
    bench.turn();
    let short = bench.push(10, 2, 1);
    let turns: Vec<Turn> = (0..4).map(|_| bench.turn()).collect();
    assert_eq!(turns, [step(0), step(0), step(0), begin(0, short)]);
}

#[test]
fn what_does_not_fit_a_side_lane_or_takes_longer_than_lane_0_waits() {
    let mut bench = Bench::new(&[100, 10], 100);
    bench.push(60, 1, 6);
    bench.turn();
    bench.push(11, 2, 1);
    bench.push(10, 2, 7);
    assert_eq!(bench.turn(), step(0));
    let short = bench.push(10, 2, 5);
    assert_eq!(bench.turn(), begin(1, short), "it passes those that cannot begin");
}

#[test]
fn a_steady_stream_of_short_prompts_takes_no_more_than_every_other_turn() {
    let mut bench = Bench::new(&[1000, 10], 100);
    let long = bench.push(1000, 1, 100);
    let mut steps = 0;
    while !bench.ended.contains(&long) {
        if bench.waiting.is_empty() {
            bench.push(10, 2, 1);
        }
        steps += usize::from(matches!(bench.turn(), Turn::Step(_)));
    }
    assert!(steps <= 200, "the long prompt took {steps} steps");
    assert!(bench.ended.len() > 90, "and {} short ones passed", bench.ended.len());
}

#[test]
fn a_state_that_is_being_read_is_not_read_twice_at_once() {
    let mut bench = Bench::new(&[100, 100], 100);
    let long = bench.push(100, 1, 10);
    assert_eq!(bench.turn(), begin(0, long));
    let (same, other) = (bench.push(20, 1, 2), bench.push(20, 2, 2));
    assert_eq!(bench.turn(), begin(1, other));
    while !bench.ended.contains(&long) {
        assert_ne!(bench.turn(), begin(1, same));
    }
    assert_eq!(bench.turn(), begin(0, same));
}

#[test]
fn an_equal_state_goes_first_but_passes_the_oldest_eight_times_at_most() {
    let mut bench = Bench::new(&[100], 100);
    bench.push(10, 1, 1);
    bench.turn();
    let (oldest, second) = (bench.push(10, 2, 1), bench.push(10, 3, 1));
    let same: Vec<TaskId> = (0..20).map(|_| bench.push(10, 1, 1)).collect();
    while bench.turn() != Turn::Rest {}
    let passing = &same[..8];
    assert_eq!(&bench.ended[1..9], passing);
    assert_eq!(bench.ended[9..12], [oldest, second, same[8]]);
}

#[test]
fn side_lanes_read_together_as_far_as_the_budget_goes() {
    let mut bench = Bench::new(&[1000, 100, 100, 100], 250);
    bench.push(1000, 0, 100);
    for state in 1..=3 {
        bench.push(100, state, 1 + usize::from(state));
    }
    let turns: Vec<Turn> = (0..8).map(|_| bench.turn()).collect();
    assert_eq!(turns[4], step(0));
    let batch = |lanes: [usize; 3]| Turn::Step(lanes.map(LaneId).to_vec());
    // 50, 34 and 25 tokens.
    assert_eq!(turns[5], batch([1, 2, 3]));

    let mut bench = Bench::new(&[1000, 100, 100, 100], 100);
    bench.push(1000, 0, 100);
    for state in 1..=3 {
        bench.push(100, state, 2);
    }
    let batches: Vec<Turn> = (0..12).map(|_| bench.turn()).filter(|turn| matches!(turn, Turn::Step(_))).collect();
    let pair = |lanes: [usize; 2]| Turn::Step(lanes.map(LaneId).to_vec());
    assert_eq!(batches[..6], [step(0), pair([1, 2]), step(0), pair([1, 3]), step(0), pair([2, 3])]);
}

#[test]
fn what_is_forgotten_never_begins_and_what_is_abandoned_frees_its_lane() {
    let mut bench = Bench::new(&[100], 100);
    let first = bench.push(10, 1, 9);
    bench.push(10, 2, 1);
    let third = bench.push(10, 3, 1);
    assert_eq!(bench.turn(), begin(0, first));
    bench.forget(0);
    bench.abandon(0);
    assert_eq!([bench.turn(), bench.turn(), bench.turn()], [begin(0, third), step(0), Turn::Rest]);
}

#[test]
fn a_lane_whose_prompt_could_not_begin_stays_free() {
    let mut planner = Planner::new(&[100], 100);
    planner.push(TaskId(1), 10, 0);
    planner.push(TaskId(2), 10, 0);
    assert_eq!(planner.next(|_| 1), begin(0, TaskId(1)));
    assert_eq!(planner.next(|_| 1), begin(0, TaskId(2)));
    assert_eq!(planner.next(|_| 1), Turn::Rest);
}

#[test]
fn whatever_comes_in_whatever_order_every_prompt_ends_and_every_turn_keeps_the_rules() {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = since.expect("it is after 1970").as_nanos() as u64 | 1;
    eprintln!("seed {seed}");
    let mut random = Random::new(seed);
    for _ in 0..200 {
        let lanes: Vec<usize> =
            std::iter::once(1000).chain((0..random.below(4)).map(|_| 1 + random.below(300))).collect();
        let mut bench = Bench::new(&lanes, 1 + random.below(400));
        let crowd = 1 + random.below(12);
        for _ in 0..100 {
            for _ in 0..random.below(3) {
                if bench.waiting.len() < crowd {
                    let (tokens, steps) = (1 + random.below(1000), 1 + random.below(12));
                    let tokens = if random.below(2) == 0 { tokens } else { 1 + tokens / 10 };
                    bench.push(tokens, random.below(3) as u8, steps);
                }
            }
            if random.below(20) == 0 && !bench.waiting.is_empty() {
                bench.forget(random.below(bench.waiting.len()));
            }
            if random.below(20) == 0 {
                bench.abandon(random.below(lanes.len()));
            }
            bench.turn();
        }
        while bench.turn() != Turn::Rest {}
        bench.ended.sort();
        assert_eq!(bench.ended, (0..bench.arrived).map(TaskId).collect::<Vec<_>>(), "each ends once");
    }
}
