//! The engine's evaluator: prompts through backbone and head.

use std::time::{Duration, Instant};

use clef_engine::{Evaluate, EvaluateError, Evaluation, Job};
use clef_head::{Head, QuestionSpans, QuestionType, Reading};
use clef_llama::{Context, SequenceId, Token};
use clef_record::{Prompt, QuestionKind};

use crate::chunks::chunks;

/// Owns the model's memory. Lives on the engine thread.
#[derive(Debug)]
pub struct Evaluator {
    context: Context,
    head: Head,
}

/// The one sequence that requests are read into.
const WORK: SequenceId = SequenceId(0);

impl Evaluator {
    pub(crate) fn new(context: Context, head: Head) -> Self {
        Self { context, head }
    }

    /// Computes the logits of one prompt, options in prompt order.
    ///
    /// # Errors
    /// If the computation fails or the job is cancelled on the way.
    pub fn logits(&mut self, job: &Job<'_>) -> Result<Evaluation, EvaluateError> {
        let read = self.read(job);
        if read.is_err() {
            // Whatever is half in the sequence must not be there for the next request.
            self.context.clear_sequence(WORK).map_err(failed)?;
        }
        read
    }

    fn read(&mut self, job: &Job<'_>) -> Result<Evaluation, EvaluateError> {
        let prompt = job.prompt;
        let tokens: Vec<Token> = prompt.tokens.iter().map(|token| Token(token.0)).collect();
        let mut reading = Reading::new(&self.head, tokens.len(), spans(prompt)).map_err(failed)?;
        self.context.clear_sequence(WORK).map_err(failed)?;
        let (mut backbone, mut head) = (Duration::ZERO, Duration::ZERO);
        for chunk in chunks(tokens.len(), job.keep, self.context.params().chunk as usize) {
            if job.cancel.is_raised() {
                return Err(EvaluateError::Cancelled);
            }
            let start = Instant::now();
            let hidden = self.context.decode(WORK, &tokens[chunk]).map_err(failed)?;
            let decoded = Instant::now();
            reading.push(&mut self.head, hidden.values).map_err(failed)?;
            backbone += decoded - start;
            head += decoded.elapsed();
        }
        let start = Instant::now();
        let ids: Vec<i32> = prompt.tokens.iter().map(|token| token.0).collect();
        let logits = reading.finish(&mut self.head, &ids).map_err(failed)?;
        head += start.elapsed();
        Ok(Evaluation { logits, reused_tokens: 0, media: Duration::ZERO, backbone, head })
    }
}

impl Evaluate for Evaluator {
    fn evaluate(&mut self, jobs: &[Job<'_>]) -> Vec<Result<Evaluation, EvaluateError>> {
        jobs.iter().map(|job| self.logits(job)).collect()
    }
}

fn failed(error: impl std::error::Error) -> EvaluateError {
    EvaluateError::Failed(error.to_string())
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
