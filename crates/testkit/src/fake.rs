//! A model without a model: answers at once, or when told to.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use clef_engine::{Encode, Evaluate, EvaluateError, Evaluation, Job, Refusal, RefusalKind};
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
        Ok(Prompt { tokens: tokens.collect(), prefix_end: 0, state_end, questions, truncated_tokens: 0 })
    }
}

/// A door that holds evaluations up until it is opened.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Debug, Default)]
struct GateState {
    open: bool,
    arrived: usize,
}

impl Gate {
    /// Lets everyone through from now on.
    pub fn open(&self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).open = true;
        self.0.1.notify_all();
    }

    /// Blocks until `count` evaluations have arrived at the gate since it was made.
    pub fn wait_for_arrivals(&self, count: usize) {
        let mut state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        while state.arrived < count {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn pass(&self, go_on: impl Fn() -> bool) -> bool {
        let mut state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        self.0.1.notify_all();
        while !state.open && go_on() {
            let wait = std::time::Duration::from_millis(1);
            state = self.0.1.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        go_on()
    }
}

/// Answers with logits `0, 1, 2, ...` in prompt order. A state `die` panics, `fail` fails, `nan` returns NaN.
#[derive(Debug, Clone, Default)]
pub struct FakeModel {
    /// Holds evaluations up, if given.
    pub gate: Option<Gate>,
}

impl Evaluate for FakeModel {
    fn evaluate(&mut self, jobs: &[Job<'_>]) -> Vec<Result<Evaluation, EvaluateError>> {
        jobs.iter().map(|job| self.one(job)).collect()
    }
}

impl FakeModel {
    fn one(&self, job: &Job<'_>) -> Result<Evaluation, EvaluateError> {
        if let Some(gate) = &self.gate
            && !gate.pass(|| !job.cancel.is_raised())
        {
            return Err(EvaluateError::Cancelled);
        }
        let state: Vec<u8> = job.prompt.tokens[..job.prompt.state_end].iter().map(|token| token.0 as u8).collect();
        assert_ne!(state, b"die", "told to");
        if state == b"fail" {
            return Err(EvaluateError::Failed("told to".into()));
        }
        let logit = |index: usize| if state == b"nan" { f32::NAN } else { index as f32 };
        let logits =
            job.prompt.questions.iter().map(|q| (0..q.options.len()).map(logit).collect::<Vec<f32>>()).collect();
        Ok(Evaluation { logits, ..Evaluation::default() })
    }
}
