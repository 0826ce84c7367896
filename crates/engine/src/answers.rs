//! Answers that are remembered.
//!
//! A model gives equal logits for equal work, so a request asked again costs a look here. Off unless asked for: most
//! callers do not repeat themselves, and their prompts would stay in memory.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use clef_record::Prompt;
use lru::LruCache;

use crate::work::Work;

/// Logits per question, options in prompt order.
pub(crate) type Logits = Arc<Vec<Vec<f32>>>;

/// A bounded memory of answers, the least recently used of which goes first. Any thread.
#[derive(Debug)]
pub(crate) struct Answers(Option<Mutex<LruCache<Work, Logits>>>);

impl Answers {
    /// Remembers at most `entries` answers.
    pub(crate) fn new(entries: usize) -> Self {
        Self(NonZeroUsize::new(entries).map(|entries| Mutex::new(LruCache::new(entries))))
    }

    pub(crate) fn find(&self, work: &Work) -> Option<Logits> {
        let mut entries = self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(work).cloned()
    }

    /// Remembers an answer, if it is one: of the prompt's shape, and of finite numbers.
    pub(crate) fn remember(&self, work: &Work, logits: &[Vec<f32>]) {
        if let Some(entries) = &self.0
            && is_answer(work.prompt(), logits)
        {
            let logits = Arc::new(logits.to_vec());
            // What goes for it is dropped after the lock: a prompt may be long.
            let _forgotten = entries.lock().unwrap_or_else(PoisonError::into_inner).push(work.clone(), logits);
        }
    }
}

fn is_answer(prompt: &Prompt, logits: &[Vec<f32>]) -> bool {
    let questions = &prompt.questions;
    logits.len() == questions.len()
        && questions.iter().zip(logits).all(|(question, logits)| {
            logits.len() == question.options.len() && logits.iter().all(|logit| logit.is_finite())
        })
}
