//! Why a record has no prompt.
//!
//! All but one of these are the client's to mend, and each names the question, the field, and both numbers where there
//! are two, because a server passes the message on as it is.

use clef_record::{Grouped, LocItem, Shortened};

use crate::tokenize::TokenizeError;

/// A record that cannot be encoded.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct EncodeError {
    kind: EncodeErrorKind,
    message: String,
    loc: Vec<LocItem>,
    #[source]
    source: Option<TokenizeError>,
}

/// Which sort of refusal an [`EncodeError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeErrorKind {
    /// The prompt has more tokens than the limit, and cutting the state was not asked for.
    TooLong {
        /// Tokens of the prompt; where `is_exact` is false, at least so many.
        tokens: usize,
        /// The limit it was held to: the context's, or the request's `max_length`.
        limit: usize,
        /// False when the text was refused by its length in bytes, without tokenizing it.
        is_exact: bool,
    },
    /// Everything but the state is over the limit already, so that cutting the state could not help.
    SchemaTooLong {
        /// Tokens of everything but the state; where `is_exact` is false, at least so many.
        tokens: usize,
        /// The limit it was held to: the context's, or the request's `max_length`.
        limit: usize,
        /// False when the text was refused by its length in bytes, without tokenizing it.
        is_exact: bool,
    },
    /// An instruction or an option has no token at all, so there is nothing to read an answer from.
    EmptyText,
    /// The vocabulary knows no pictures.
    NoMedia,
    /// The tokenizer failed. Not the client's fault.
    Tokenizer,
}

impl EncodeError {
    /// Which sort of refusal this is.
    pub fn kind(&self) -> EncodeErrorKind {
        self.kind
    }

    /// One line for people, at most one kilobyte; the same as `Display`.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The place in the request's body, as in [`RecordError::loc`](clef_record::RecordError::loc).
    pub fn loc(&self) -> &[LocItem] {
        &self.loc
    }

    pub(crate) fn too_long(tokens: usize, limit: usize, is_exact: bool) -> Self {
        Self {
            kind: EncodeErrorKind::TooLong { tokens, limit, is_exact },
            message: format!(
                "record has {}{} tokens, the limit is {}",
                if is_exact { "" } else { "at least " },
                Grouped(tokens),
                Grouped(limit)
            ),
            loc: vec!["body".into()],
            source: None,
        }
    }

    pub(crate) fn schema_too_long(tokens: usize, limit: usize) -> Self {
        Self::too_long_without_state("questions need at least", tokens, limit, false, "questions")
    }

    pub(crate) fn media_too_long(tokens: usize, limit: usize) -> Self {
        Self::too_long_without_state("images and videos need at least", tokens, limit, false, "")
    }

    /// Everything but the state was laid out.
    pub(crate) fn fixed_too_long(tokens: usize, limit: usize, has_media: bool) -> Self {
        match has_media {
            true => Self::too_long_without_state("questions, images and videos need", tokens, limit, true, ""),
            false => Self::too_long_without_state("questions need", tokens, limit, true, "questions"),
        }
    }

    fn too_long_without_state(what: &str, tokens: usize, limit: usize, is_exact: bool, field: &str) -> Self {
        let loc = ["body", field].into_iter().filter(|step| !step.is_empty());
        Self {
            kind: EncodeErrorKind::SchemaTooLong { tokens, limit, is_exact },
            message: format!("{what} {} tokens before the state, the limit is {}", Grouped(tokens), Grouped(limit)),
            loc: loc.map(LocItem::from).collect(),
            source: None,
        }
    }

    pub(crate) fn no_media() -> Self {
        Self {
            kind: EncodeErrorKind::NoMedia,
            message: "this model's vocabulary has no tokens for images and videos".to_owned(),
            loc: vec!["body".into()],
            source: None,
        }
    }

    pub(crate) fn empty_instruction(question: &str) -> Self {
        Self {
            kind: EncodeErrorKind::EmptyText,
            message: format!("question \"{}\" instructions has no token, it must not be empty", Shortened(question)),
            loc: question_loc(question, &["instructions"]),
            source: None,
        }
    }

    pub(crate) fn empty_option(question: &str, option: &str) -> Self {
        Self {
            kind: EncodeErrorKind::EmptyText,
            message: format!(
                "question \"{}\" criteria option \"{}\" has no token, it must not be empty",
                Shortened(question),
                Shortened(option)
            ),
            loc: question_loc(question, &["criteria", option]),
            source: None,
        }
    }
}

impl From<TokenizeError> for EncodeError {
    fn from(source: TokenizeError) -> Self {
        Self {
            kind: EncodeErrorKind::Tokenizer,
            message: format!("tokenizer failed: {source}"),
            loc: Vec::new(),
            source: Some(source),
        }
    }
}

fn question_loc(question: &str, path: &[&str]) -> Vec<LocItem> {
    let root = ["body", "questions", question];
    root.iter().chain(path).map(|step| LocItem::field(step)).collect()
}
