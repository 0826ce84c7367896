//! The engine's evaluator: prompts through backbone and head, chunk by chunk, from whatever of them is kept already.

use std::sync::Arc;

use clef_engine::{Begun, Evaluate, EvaluateError, HeldState, LaneId, StateCache, Step};
use clef_head::{Head, QuestionSpans, QuestionType, Reading};
use clef_llama::gguf::Gguf;
use clef_llama::{Context, ContextParams, Model, Token, Vision};
use clef_record::{Prompt, QuestionKind, TokenId};

use crate::cuts::{Cuts, Pieces};
use crate::error::Result;
use crate::lane::{Kept, Lane};
use crate::states::{State, read_prefix};
use crate::vision::{Eye, TokenTable};

/// The longest prompt of a lane beside the first. Most requests fit, and its memory is small beside the first's.
pub(crate) const SIDE_TOKENS: u32 = 4096;

/// The share of the memory for held states that embeddings of pictures may take: one in so many.
const EMBEDDINGS_SHARE: usize = 4;

/// What was loaded.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) gguf: Arc<Gguf>,
    pub(crate) model: Model,
    pub(crate) head: Head,
    pub(crate) vision: Option<Vision>,
}

/// Owns the model's memory. Lives on the engine thread.
#[derive(Debug)]
pub struct Evaluator {
    model: Model,
    head: Head,
    /// None for a model of text only.
    eye: Option<Eye>,
    params: ContextParams,
    /// The first has a context from the start, the others from when they are first needed.
    lanes: Vec<Option<Lane>>,
    prefix_tokens: Vec<TokenId>,
    prefix: State,
    states: StateCache<State>,
    /// What states and embeddings of pictures may take together.
    cache_bytes: usize,
    pieces: Pieces,
}

impl Evaluator {
    /// `prefix` is how every prompt starts; `lanes` how many prompts can be read at once; `cache_bytes` what may be kept
    /// of states for later prompts.
    pub(crate) fn new(
        parts: Parts,
        params: ContextParams,
        prefix: &[TokenId],
        lanes: usize,
        cache_bytes: usize,
    ) -> Result<Self> {
        let Parts { gguf, model, mut head, vision } = parts;
        let table = TokenTable::new(gguf)?;
        let eye = vision.map(|vision| Eye::new(vision, table, cache_bytes / EMBEDDINGS_SHARE));
        let tokens: Vec<Token> = prefix.iter().map(|token| Token(token.0)).collect();
        // Before the large context is there, so that the small one adds nothing to the peak.
        let prefix_state = read_prefix(&model, &params, &mut head, &tokens)?;
        let first = Lane::new(Context::new(&model, &params)?);
        Ok(Self {
            model,
            head,
            eye,
            lanes: std::iter::once(Some(first)).chain((1..lanes).map(|_| None)).collect(),
            prefix_tokens: prefix.to_vec(),
            prefix: prefix_state,
            states: StateCache::new(cache_bytes),
            cache_bytes,
            pieces: Pieces::new(params.chunk as usize),
            params,
        })
    }

    /// Computes the logits of one prompt in the first lane, options in prompt order.
    ///
    /// # Errors
    /// If the computation fails.
    pub fn logits(&mut self, prompt: &Arc<Prompt>) -> std::result::Result<Vec<Vec<f32>>, EvaluateError> {
        self.begin(LaneId(0), prompt)?;
        loop {
            if let Step::Answered(evaluation) = self.step_lane(0)? {
                return Ok(evaluation.logits);
            }
        }
    }

    fn side_tokens(&self) -> u32 {
        SIDE_TOKENS.min(self.params.cells)
    }

    fn step_lane(&mut self, index: usize) -> std::result::Result<Step, EvaluateError> {
        let step = self.look_or_read(index);
        step.map_err(|error| {
            self.reset(index);
            EvaluateError::Failed(error.to_string())
        })
    }

    /// Sees one picture that the next chunk shows, or else reads the chunk.
    fn look_or_read(&mut self, index: usize) -> Result<Step> {
        let Self { lanes, head, eye, states, .. } = self;
        let lane = lanes[index].as_mut().expect("the engine steps busy lanes only");
        if let Some(eye) = eye
            && lane.look(eye)?
        {
            // Embeddings and states share one budget.
            drop(states.set_budget(self.cache_bytes - eye.kept_bytes()));
            let steps = self.steps_of(index);
            return Ok(Step::Reading { steps });
        }
        let read = lane.step(head, eye.as_ref(), |bytes| states.would_keep(bytes))?;
        self.keep(read.kept);
        Ok(match read.answer {
            Some(evaluation) => Step::Answered(evaluation),
            None => Step::Reading { steps: self.steps_of(index) },
        })
    }

    /// Steps that are left of what a lane reads.
    fn steps_of(&self, index: usize) -> usize {
        let lane = self.lanes[index].as_ref();
        lane.map_or(0, |lane| lane.steps(|name| self.knows(name)))
    }

    fn knows(&self, name: TokenId) -> bool {
        self.eye.as_ref().is_some_and(|eye| eye.knows(name))
    }

    fn keep(&mut self, kept: Option<Kept>) {
        if let Some(Kept { tokens, state }) = kept {
            let (boundaries, bytes) = (state.boundaries(), state.bytes());
            // What had to go for it is dropped here; it was asked before whether it would be kept.
            drop(self.states.insert(tokens, boundaries, state, bytes));
        }
    }

    /// After an error nothing of a lane can be trusted; a side lane's memory is given back as well.
    fn reset(&mut self, index: usize) {
        if index > 0 {
            self.lanes[index] = None;
        } else if let Some(lane) = self.lanes[index].as_mut()
            && let Err(error) = lane.clear()
        {
            tracing::error!("the context cannot be cleared: {error}");
        }
    }

    fn start(&mut self, index: usize, prompt: &Arc<Prompt>) -> Result<Begun> {
        let cuts = Cuts::new(prompt, self.pieces);
        let reading = Reading::new(&self.head, prompt.tokens.len(), spans(prompt))?;
        let branch = self.states.shared_prefix(&prompt.tokens);
        let lane = self.lanes[index].as_mut().expect("made by `begin`");
        let hit = self.states.find(&prompt.tokens, cuts.of_state());
        let from = hit.map(|hit| (hit.payload, hit.boundary)).or_else(|| {
            let same = cuts.after_prefix() && prompt.tokens.starts_with(&self.prefix_tokens);
            same.then_some((&self.prefix, self.prefix_tokens.len()))
        });
        let reused_tokens = from.map_or(0, |(_, boundary)| boundary);
        lane.begin(prompt, cuts, reading, &self.head, from, branch)?;
        Ok(Begun { reused_tokens, steps: self.steps_of(index) })
    }
}

impl Evaluate for Evaluator {
    fn lanes(&self) -> Vec<usize> {
        let side = self.side_tokens() as usize;
        std::iter::once(self.params.cells as usize).chain((1..self.lanes.len()).map(|_| side)).collect()
    }

    fn steps(&self, prompt: &Prompt) -> usize {
        let cuts = Cuts::new(prompt, self.pieces);
        let prefix = if cuts.after_prefix() { prompt.prefix_end } else { 0 };
        let held = self.states.peek(&prompt.tokens, cuts.of_state()).max(prefix);
        cuts.chunks_after(held) + unseen(prompt, held, |name| self.knows(name))
    }

    fn begin(&mut self, lane: LaneId, prompt: &Arc<Prompt>) -> std::result::Result<Begun, EvaluateError> {
        if self.lanes[lane.0].is_none() {
            let params = ContextParams { cells: self.side_tokens(), ..self.params.clone() };
            let context = Context::new(&self.model, &params).map_err(|error| {
                tracing::warn!("there is no memory to read a second request beside a long one: {error}");
                EvaluateError::NoLane
            })?;
            self.lanes[lane.0] = Some(Lane::new(context));
        }
        self.start(lane.0, prompt).map_err(|error| {
            prompt.drop_pixels();
            self.reset(lane.0);
            EvaluateError::Failed(error.to_string())
        })
    }

    fn step(&mut self, lanes: &[LaneId]) -> Vec<std::result::Result<Step, EvaluateError>> {
        // One after the other: on a CPU a chunk fills the machine, and neighbours in one decode would move answers.
        lanes.iter().map(|lane| self.step_lane(lane.0)).collect()
    }

    fn abandon(&mut self, lane: LaneId) {
        let Self { lanes, head, states, .. } = self;
        let Some(busy) = lanes[lane.0].as_mut() else { return };
        match busy.abandon(head, |bytes| states.would_keep(bytes)) {
            Ok(kept) => self.keep(kept),
            Err(error) => tracing::warn!("a state that was half read cannot be kept: {error}"),
        }
    }

    fn held(&self) -> Vec<HeldState> {
        self.states.entries().collect()
    }
}

/// Slots of a prompt behind its first `read` tokens that the vision tower has to see.
pub(crate) fn unseen(prompt: &Prompt, read: usize, knows: impl Fn(TokenId) -> bool) -> usize {
    let is_unseen = |start: usize| start >= read && !knows(prompt.tokens[start]);
    prompt.media.iter().filter(|slot| is_unseen(slot.span.start)).count()
}

fn spans(prompt: &Prompt) -> Vec<QuestionSpans> {
    let question = |question: &clef_record::PromptQuestion| QuestionSpans {
        kind: match question.kind {
            QuestionKind::Noul => QuestionType::Noul,
            QuestionKind::Choice => QuestionType::Choice,
            QuestionKind::Score => QuestionType::Score,
        },
        text: question.span.clone(),
        options: question.options.iter().map(|option| option.span.clone()).collect(),
    };
    prompt.questions.iter().map(question).collect()
}
