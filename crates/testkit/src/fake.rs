//! A model without a model: answers at once, or when told to.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clef_engine::{Begun, Encode, Evaluate, EvaluateError, Evaluation, HeldState, LaneId, Refusal, RefusalKind, Step};
use clef_record::{Prompt, PromptOption, PromptQuestion, Record, TokenId};

/// Encodes one token per byte of the state and three per span. A state `panic` panics; one longer than `limit` bytes is
/// refused.
#[derive(Debug, Clone)]
pub struct FakeEncoder {
    /// The most bytes of a state.
    pub limit: usize,
}

impl Encode for FakeEncoder {
    fn encode(&self, record: &Record) -> Result<Prompt, Refusal> {
        assert_ne!(record.state, "panic", "told to");
        let state_end = record.state.len();
        if state_end > self.limit {
            let kind = RefusalKind::TooLong { tokens: state_end, limit: self.limit };
            return Err(Refusal { kind, message: "too long".into(), loc: Vec::new() });
        }
        let mut end = state_end;
        let mut span = || {
            end += 3;
            end - 3..end
        };
        let questions = record
            .questions
            .iter()
            .map(|question| PromptQuestion {
                kind: question.kind,
                span: span(),
                options: question
                    .prompt_order()
                    .into_iter()
                    .map(|request_index| PromptOption { span: span(), request_index })
                    .collect(),
            })
            .collect();
        let tokens = record.state.bytes().map(|byte| TokenId(byte.into())).chain((state_end..end).map(|_| TokenId(0)));
        Ok(Prompt {
            tokens: tokens.collect(),
            prefix_end: 0,
            media: Vec::new(),
            media_ends: Vec::new(),
            state_end,
            questions,
            truncated_tokens: 0,
        })
    }
}

/// A door that holds steps up until it is opened, or lets some of them through.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Debug, Default)]
struct GateState {
    open: bool,
    arrived: usize,
    passes: usize,
}

/// How long a step stands at a closed gate before it is taken for forgotten. A failed test would never end otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

impl Gate {
    /// Lets everyone through from now on.
    pub fn open(&self) {
        self.state().open = true;
        self.0.1.notify_all();
    }

    /// Lets the next `count` steps through.
    pub fn let_through(&self, count: usize) {
        self.state().passes += count;
        self.0.1.notify_all();
    }

    /// Blocks until `count` steps have arrived at the gate since it was made.
    pub fn wait_for_arrivals(&self, count: usize) {
        let mut state = self.state();
        while state.arrived < count {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self) {
        let mut state = self.state();
        state.arrived += 1;
        self.0.1.notify_all();
        let is_closed = |state: &mut GateState| !state.open && state.passes == 0;
        let waited = self.0.1.wait_timeout_while(state, PATIENCE, is_closed).unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.1.timed_out(), "the gate was forgotten");
        state = waited.0;
        state.passes = state.passes.saturating_sub(1);
    }
}

/// What a [`FakeModel`] was told to do. States are spelled out as the text that they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A prompt with this state began.
    Begin(LaneId, String),
    /// These lanes read their next chunk.
    Step(Vec<LaneId>),
    /// A prompt was given up.
    Abandon(LaneId),
}

/// What a [`FakeModel`] was told to do so far. Copies share it.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    events: Vec<Event>,
    decoded_tokens: usize,
}

impl Log {
    /// All of it, in order.
    pub fn events(&self) -> Vec<Event> {
        self.written().events.clone()
    }

    /// The states of the prompts that began, in order.
    pub fn begun(&self) -> Vec<String> {
        let state = |event| if let Event::Begin(_, state) = event { Some(state) } else { None };
        self.events().into_iter().filter_map(state).collect()
    }

    /// How many chunks were read, in all lanes.
    pub fn steps(&self) -> usize {
        self.events().iter().map(|event| if let Event::Step(lanes) = event { lanes.len() } else { 0 }).sum()
    }

    /// How many tokens were read.
    pub fn decoded_tokens(&self) -> usize {
        self.written().decoded_tokens
    }

    fn write(&self, event: Event) {
        self.written().events.push(event);
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers with logits `0, 1, 2, ...` in prompt order, after as many steps as it takes.
///
/// A state `die` panics, `stuck` cannot begin, `fail` fails, `nan` returns NaN; `endless` has always more to read, a
/// millisecond at a time.
#[derive(Debug, Clone)]
pub struct FakeModel {
    gate: Option<Gate>,
    log: Log,
    tokens_per_step: usize,
    lanes: Vec<(usize, Option<Busy>)>,
    /// The states that it went through, the last one first; none if it forgets them.
    held: Option<Vec<(Vec<TokenId>, u64)>>,
    is_short_of_memory: bool,
}

#[derive(Debug, Clone)]
struct Busy {
    prompt: Arc<Prompt>,
    read: usize,
    spent: Duration,
}

impl Default for FakeModel {
    /// One lane, and every prompt in one step.
    fn default() -> Self {
        let lanes = vec![(usize::MAX, None)];
        Self {
            gate: None,
            log: Log::default(),
            tokens_per_step: usize::MAX,
            lanes,
            held: None,
            is_short_of_memory: false,
        }
    }
}

impl FakeModel {
    /// Steps are held up at a gate.
    #[must_use]
    pub fn gated(self, gate: &Gate) -> Self {
        Self { gate: Some(gate.clone()), ..self }
    }

    /// Reads so many tokens in a step.
    #[must_use]
    pub fn reading(self, tokens_per_step: usize) -> Self {
        Self { tokens_per_step, ..self }
    }

    /// Lane 0, and side lanes for prompts of so many tokens.
    #[must_use]
    pub fn beside(mut self, side_lanes: &[usize]) -> Self {
        self.lanes.extend(side_lanes.iter().map(|&max_tokens| (max_tokens, None)));
        self
    }

    /// Finds no memory for side lanes when they are needed.
    #[must_use]
    pub fn short_of_memory(self) -> Self {
        Self { is_short_of_memory: true, ..self }
    }

    /// Holds every state that it has answered about.
    #[must_use]
    pub fn holding(self) -> Self {
        Self { held: Some(Vec::new()), ..self }
    }

    /// What it was told to do. Shared with the model, wherever that goes.
    pub fn log(&self) -> Log {
        self.log.clone()
    }

    /// The length of a held state that a prompt starts with.
    fn reusable(&self, prompt: &Prompt) -> usize {
        let held = self.held.iter().flatten().map(|(state, _)| state);
        held.filter(|state| prompt.tokens.starts_with(state)).map(Vec::len).max().unwrap_or(0)
    }

    fn hold(&mut self, state: &[TokenId]) {
        let Some(held) = &mut self.held else { return };
        let uses = held.iter().position(|(known, _)| known == state).map_or(0, |index| held.remove(index).1 + 1);
        held.insert(0, (state.to_vec(), uses));
    }

    fn step_one(&mut self, lane: LaneId) -> Result<Step, EvaluateError> {
        let start = Instant::now();
        if let Some(gate) = &self.gate {
            gate.pass();
        }
        let mut busy = self.lanes[lane.0].1.take().expect("only busy lanes are stepped");
        let state = text(&busy.prompt);
        assert_ne!(state, "die", "told to");
        if state == "fail" {
            return Err(EvaluateError::Failed("told to".into()));
        }
        let tokens = busy.prompt.tokens.len();
        if state == "endless" {
            std::thread::sleep(Duration::from_millis(1));
        } else {
            let read = busy.read.saturating_add(self.tokens_per_step).min(tokens);
            self.log.written().decoded_tokens += read - busy.read;
            busy.read = read;
        }
        busy.spent += start.elapsed();
        if busy.read < tokens {
            let steps = (tokens - busy.read).div_ceil(self.tokens_per_step);
            self.lanes[lane.0].1 = Some(busy);
            return Ok(Step::Reading { steps });
        }
        self.hold(&busy.prompt.tokens[..busy.prompt.state_end]);
        let logit = |index: usize| if state == "nan" { f32::NAN } else { index as f32 };
        let questions = busy.prompt.questions.iter();
        let logits = questions.map(|question| (0..question.options.len()).map(logit).collect()).collect();
        Ok(Step::Answered(Evaluation { logits, backbone: busy.spent, ..Evaluation::default() }))
    }
}

impl Evaluate for FakeModel {
    fn lanes(&self) -> Vec<usize> {
        self.lanes.iter().map(|&(max_tokens, _)| max_tokens).collect()
    }

    fn steps(&self, prompt: &Prompt) -> usize {
        (prompt.tokens.len() - self.reusable(prompt)).div_ceil(self.tokens_per_step)
    }

    fn begin(&mut self, lane: LaneId, prompt: &Arc<Prompt>) -> Result<Begun, EvaluateError> {
        assert!(prompt.tokens.len() <= self.lanes[lane.0].0, "the prompt does not fit {lane:?}");
        assert!(self.lanes[lane.0].1.is_none(), "{lane:?} is busy");
        let state = text(prompt);
        self.log.write(Event::Begin(lane, state.clone()));
        if self.is_short_of_memory && lane != LaneId(0) {
            return Err(EvaluateError::NoLane);
        }
        if state == "stuck" {
            return Err(EvaluateError::Failed("told to".into()));
        }
        let (reused_tokens, steps) = (self.reusable(prompt), self.steps(prompt));
        self.lanes[lane.0].1 = Some(Busy { prompt: Arc::clone(prompt), read: reused_tokens, spent: Duration::ZERO });
        Ok(Begun { reused_tokens, steps })
    }

    fn step(&mut self, lanes: &[LaneId]) -> Vec<Result<Step, EvaluateError>> {
        self.log.write(Event::Step(lanes.to_vec()));
        lanes.iter().map(|&lane| self.step_one(lane)).collect()
    }

    fn abandon(&mut self, lane: LaneId) {
        self.log.write(Event::Abandon(lane));
        assert!(self.lanes[lane.0].1.take().is_some(), "{lane:?} is free");
    }

    fn held(&self) -> Vec<HeldState> {
        let held = self.held.iter().flatten();
        let state = |(state, uses): &(Vec<TokenId>, u64)| HeldState {
            tokens: state.len(),
            boundaries: vec![state.len()],
            bytes: 4 * state.len(),
            uses: *uses,
        };
        held.map(state).collect()
    }
}

/// The state as it was before it was encoded, or its beginning: tests that measure memory ask about large ones.
fn text(prompt: &Prompt) -> String {
    let bytes = prompt.tokens[..prompt.state_end].iter().take(1000).map(|token| token.0 as u8);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}
