//! What cannot fit, told from lengths alone.
//!
//! Tokenizing is the first work whose cost a client decides, so a text that is too long whatever it says is refused, or cut,
//! before it. A token stands for a bounded number of bytes, and that bounds the other direction too.

use clef_record::{Question, Record};

use crate::encoder::EncoderOptions;

/// How far Unicode normalization may shrink a text before it is tokenized, rounded up. The furthest is U+1FBE with two
/// accents, seven bytes that become the two of U+0390.
const NORMALIZATION_SHRINKS: usize = 4;

/// How far past the last byte that could matter a place to cut is looked for.
const CUT_WINDOW_BYTES: usize = 64 * 1024;

/// Bounds that follow from a tokenizer's longest token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    bytes_per_token: usize,
}

impl Bounds {
    pub(crate) fn new(longest_token_bytes: usize) -> Self {
        Self { bytes_per_token: longest_token_bytes.max(1).saturating_mul(NORMALIZATION_SHRINKS) }
    }

    /// The fewest tokens a text of so many bytes can have.
    pub(crate) fn fewest_tokens(self, bytes: usize) -> usize {
        bytes.div_ceil(self.bytes_per_token)
    }

    /// The part of a state that decides its first `tokens` tokens; all of it unless it is far longer than they can be.
    ///
    /// Every text of that many bytes has that many tokens, so only the cut could change them. It is put where the
    /// pre-tokenizers of this model family always split, a line's or a word's start, so that tokens before it are
    /// those of the whole text. In a single word of more than 64 KiB there is no such place; then the last tokens
    /// before the cut, which are far behind the ones that are kept, may differ.
    pub(crate) fn head(self, state: &str, tokens: usize) -> &str {
        let enough = tokens.saturating_mul(self.bytes_per_token);
        if state.len() <= enough {
            return state;
        }
        let last = state.len().min(enough.saturating_add(CUT_WINDOW_BYTES));
        let cut = (enough..last)
            .find(|&at| splits_at(state.as_bytes(), at))
            .unwrap_or_else(|| state.ceil_char_boundary(enough));
        &state[..cut]
    }
}

/// Whether every pre-tokenizer of the family splits before the byte `at`: letter after newline, space between letters.
fn splits_at(text: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|before| text[before]) else {
        return false;
    };
    let is_letter = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphabetic);
    match text[at] {
        b' ' => before.is_ascii_alphabetic() && is_letter(at + 1),
        _ => before == b'\n' && is_letter(at),
    }
}

/// Bytes of the client's texts in everything but the state.
pub(crate) fn schema_bytes(record: &Record, options: &EncoderOptions) -> usize {
    let question_bytes = |question: &Question| {
        let id = if options.neutral_ids { 0 } else { question.id.len() };
        let texts: usize = question.options.iter().map(|option| option.text.len()).sum();
        id + question.instruction.len() + texts
    };
    record.questions.iter().map(question_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_may_fit_is_not_cut() {
        let bounds = Bounds::new(3);
        let state = "word ".repeat(12);
        assert_eq!(bounds.head(&state, 5), state);
        assert_eq!(bounds.fewest_tokens(60), 5);
        assert_eq!(bounds.fewest_tokens(61), 6);
        assert_eq!(bounds.fewest_tokens(0), 0);
    }

    #[test]
    fn a_state_that_cannot_fit_is_cut_before_a_word() {
        let bounds = Bounds::new(3);
        let state = "word ".repeat(14);
        assert_eq!(bounds.head(&state, 5).len(), 64);
        assert_eq!(bounds.head(&state, 1), "word word word");
        let lines = "12,34\nab".repeat(100);
        assert_eq!(bounds.head(&lines, 1), "12,34\nab12,34\n");
    }

    #[test]
    fn without_a_word_the_cut_is_between_characters() {
        let bounds = Bounds::new(1);
        let state = "退款".repeat(100_000);
        let head = bounds.head(&state, 3);
        assert_eq!(head, "退款退款");
        assert_eq!(bounds.head(&state, 0), "");
        let syllables = "é".repeat(100_000);
        assert_eq!(bounds.head(&syllables, 1), "éé");
    }
}
