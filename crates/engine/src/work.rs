//! What two requests must share to share an answer, or a state.
//!
//! Logits depend on a prompt's tokens and on where in them the questions stand, on nothing else: not on the names in
//! the record, nor on the order in which its options were listed. So requests that differ in those only are the same
//! work. Prompts are compared in full; hashes, made on the threads that encode, merely spare most comparisons.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use clef_record::{Prompt, PromptOption, PromptQuestion};

/// A prompt as a key: equal to another if the model would answer both with the same logits.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    prompt: Arc<Prompt>,
    state_hash: u64,
    hash: u64,
}

impl Work {
    pub(crate) fn new(prompt: Prompt) -> Self {
        let mut hasher = DefaultHasher::new();
        let (state, rest) = prompt.tokens.split_at(prompt.state_end);
        state.hash(&mut hasher);
        let state_hash = hasher.finish();
        rest.hash(&mut hasher);
        for question in &prompt.questions {
            question.span.hash(&mut hasher);
        }
        Self { prompt: Arc::new(prompt), state_hash, hash: hasher.finish() }
    }

    pub(crate) fn prompt(&self) -> &Arc<Prompt> {
        &self.prompt
    }

    pub(crate) fn tokens(&self) -> usize {
        self.prompt.tokens.len()
    }

    pub(crate) fn state(&self) -> State {
        State(self.clone())
    }
}

impl PartialEq for Work {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && is_same_work(&self.prompt, &other.prompt)
    }
}

impl Eq for Work {}

impl Hash for Work {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Takes prompts apart completely, so that nobody adds a field to them without deciding whether it changes answers.
fn is_same_work(one: &Prompt, other: &Prompt) -> bool {
    // What is shown is named by the tokens, and shows in how many rows.
    let Prompt { tokens, prefix_end, media: _, media_ends: _, state_end, questions, truncated_tokens: _ } = one;
    *prefix_end == other.prefix_end
        && *state_end == other.state_end
        && questions.len() == other.questions.len()
        && questions.iter().zip(&other.questions).all(|(one, other)| is_same_question(one, other))
        && *tokens == other.tokens
}

fn is_same_question(one: &PromptQuestion, other: &PromptQuestion) -> bool {
    let PromptQuestion { kind, span, options } = one;
    let is_same_option = |(one, other): (&PromptOption, &PromptOption)| {
        let PromptOption { span, request_index: _ } = one;
        *span == other.span
    };
    *kind == other.kind
        && *span == other.span
        && options.len() == other.options.len()
        && options.iter().zip(&other.options).all(is_same_option)
}

/// A prompt's tokens up to the end of its state, as a key.
#[derive(Debug, Clone)]
pub(crate) struct State(Work);

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (&self.0, &other.0);
        one.state_hash == other.state_hash
            && one.prompt.tokens[..one.prompt.state_end] == other.prompt.tokens[..other.prompt.state_end]
    }
}

#[cfg(test)]
mod tests {
    use clef_record::{QuestionKind, TokenId};

    use super::*;

    fn prompt() -> Prompt {
        let option = |start: usize, request_index| PromptOption { span: start..start + 2, request_index };
        let question = |start: usize| PromptQuestion {
            kind: QuestionKind::Choice,
            span: start..start + 2,
            options: vec![option(start + 2, 1), option(start + 4, 0)],
        };
        Prompt {
            tokens: (0..20).map(TokenId).collect(),
            prefix_end: 2,
            media: Vec::new(),
            media_ends: Vec::new(),
            state_end: 8,
            questions: vec![question(8), question(14)],
            truncated_tokens: 0,
        }
    }

    fn changed(change: impl Fn(&mut Prompt)) -> Work {
        let mut prompt = prompt();
        change(&mut prompt);
        Work::new(prompt)
    }

    #[test]
    fn only_what_the_model_cannot_see_may_differ() {
        let work = Work::new(prompt());
        for same in [
            changed(|_| ()),
            changed(|prompt| prompt.truncated_tokens = 7),
            changed(|prompt| prompt.questions[0].options[0].request_index = 9),
        ] {
            assert_eq!(work, same);
            assert_eq!(work.hash, same.hash);
        }
        for other in [
            changed(|prompt| prompt.tokens[19] = TokenId(5)),
            changed(|prompt| prompt.tokens.push(TokenId(5))),
            changed(|prompt| prompt.prefix_end = 3),
            changed(|prompt| prompt.state_end = 7),
            changed(|prompt| prompt.questions[1].kind = QuestionKind::Score),
            changed(|prompt| prompt.questions[1].span = 14..15),
            changed(|prompt| prompt.questions[1].options[1].span = 18..19),
            changed(|prompt| prompt.questions[1].options.truncate(1)),
            changed(|prompt| prompt.questions.truncate(1)),
        ] {
            assert_ne!(work, other);
        }
    }

    #[test]
    fn a_hash_alone_makes_nothing_equal() {
        let (one, mut other) = (Work::new(prompt()), changed(|prompt| prompt.tokens[3] = TokenId(99)));
        (other.hash, other.state_hash) = (one.hash, one.state_hash);
        assert_ne!(one, other);
        assert_ne!(one.state(), other.state());
    }

    #[test]
    fn states_are_equal_up_to_their_end() {
        let state = Work::new(prompt()).state();
        assert_eq!(state, changed(|prompt| prompt.tokens[8] = TokenId(99)).state());
        assert_ne!(state, changed(|prompt| prompt.tokens[7] = TokenId(99)).state());
        assert_ne!(state, changed(|prompt| prompt.state_end = 7).state());
    }
}
