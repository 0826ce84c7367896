//! Text to tokens and back, apart from any record.

use std::sync::Arc;

use clef_llama::{Token, Vocabulary};
use clef_record::TokenId;

use crate::error::Result;

/// A model's vocabulary. Cloned handles share it, and keep the model's file in memory; any thread.
#[derive(Debug, Clone)]
pub struct Text(Arc<Vocabulary>);

impl Text {
    pub(crate) fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self(vocabulary)
    }

    /// The tokens of a text; with `special`, added tokens such as `<|im_end|>` are recognized. Nothing is put around
    /// it: vocabularies of this family have no token for that.
    ///
    /// # Errors
    /// If the text is longer than 2 GiB.
    pub fn tokenize(&self, text: &str, special: bool) -> Result<Vec<TokenId>> {
        let mut tokens = Vec::new();
        match special {
            true => self.0.tokenize(text, &mut tokens)?,
            false => self.0.tokenize_plain(text, &mut tokens)?,
        }
        Ok(tokens.into_iter().map(|token| TokenId(token.0)).collect())
    }

    /// The bytes that a token stands for, which need not be whole characters; none if there is no such token.
    pub fn piece(&self, token: TokenId) -> Option<&[u8]> {
        self.0.piece(Token(token.0))
    }
}
