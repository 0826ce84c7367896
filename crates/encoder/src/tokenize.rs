//! What the encoder asks of a vocabulary.
//!
//! A trait, because the real tokenizer lives in a C++ library behind a model file, and the layout is tested against one
//! that fits in ten lines.

use clef_record::TokenId;

/// Text to tokens, as the reference's tokenizer does.
pub trait Tokenize: Send + Sync {
    /// Appends the text's tokens to `out`: special tokens are recognised in it, none are added around it.
    ///
    /// An empty text has no token.
    ///
    /// # Errors
    /// If the text cannot be tokenized. What was appended by then means nothing.
    fn tokenize(&self, text: &str, out: &mut Vec<TokenId>) -> Result<(), TokenizeError>;

    /// The length of the longest text a single token stands for, in bytes; at least 1.
    ///
    /// From it follows which texts are too long whatever they say, so it must not be too small.
    fn longest_token_bytes(&self) -> usize;
}

/// A text could not be tokenized.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TokenizeError {
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl TokenizeError {
    /// An error that says what happened, in one short line without the text itself.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// Adds what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}
