//! A vocabulary for tests: a character is a token, and so is each special text.

use std::sync::atomic::{AtomicUsize, Ordering};

use clef_encoder::{Encoder, Tokenize, TokenizeError};
use clef_record::{Prompt, Record, TokenId};

const SPECIAL: [&str; 8] = [
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
];

/// Ids of special tokens start past all characters.
const FIRST_SPECIAL: i32 = 0x0011_0000;

/// Counts the bytes it was asked to tokenize, so that a test can say what was left alone.
#[derive(Debug, Default)]
pub(crate) struct Characters {
    pub(crate) bytes: AtomicUsize,
    /// A character that no token stands for.
    pub(crate) dropped: Option<char>,
    /// Special texts that this vocabulary does not have, from the end of the list.
    pub(crate) lacks: usize,
}

impl Characters {
    pub(crate) fn take_bytes(&self) -> usize {
        self.bytes.swap(0, Ordering::Relaxed)
    }
}

impl Tokenize for Characters {
    fn tokenize(&self, text: &str, out: &mut Vec<TokenId>) -> Result<(), TokenizeError> {
        self.bytes.fetch_add(text.len(), Ordering::Relaxed);
        if text.contains("unspeakable") {
            return Err(TokenizeError::new("no such word"));
        }
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let known = &SPECIAL[..SPECIAL.len() - self.lacks];
            if let Some(index) = known.iter().position(|special| rest.starts_with(special)) {
                out.push(TokenId(FIRST_SPECIAL + i32::try_from(index).unwrap()));
                rest = &rest[SPECIAL[index].len()..];
                continue;
            }
            if Some(character) != self.dropped {
                out.push(TokenId(i32::try_from(u32::from(character)).unwrap()));
            }
            rest = &rest[character.len_utf8()..];
        }
        Ok(())
    }

    fn longest_token_bytes(&self) -> usize {
        SPECIAL.iter().map(|special| special.len()).max().unwrap()
    }
}

pub(crate) fn encoder() -> Encoder {
    Encoder::new(&Characters::default()).unwrap()
}

pub(crate) fn record(body: &str) -> Record {
    Record::parse(body.as_bytes()).unwrap()
}

/// The text that some of a prompt's tokens stand for.
pub(crate) fn text(tokens: &[TokenId]) -> String {
    let mut text = String::new();
    for token in tokens {
        match token.0 - FIRST_SPECIAL {
            special @ 0.. => text.push_str(SPECIAL[usize::try_from(special).unwrap()]),
            _ => text.push(char::from_u32(token.0.try_into().unwrap()).unwrap()),
        }
    }
    text
}

/// The texts of a prompt's spans: each question's instruction, then its options in prompt order.
pub(crate) fn span_texts(prompt: &Prompt) -> Vec<Vec<String>> {
    let questions = prompt.questions.iter().map(|question| {
        let options = question.options.iter().map(|option| &option.span);
        std::iter::once(&question.span).chain(options).map(|span| text(&prompt.tokens[span.clone()])).collect()
    });
    questions.collect()
}
