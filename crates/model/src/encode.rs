//! The engine's encoder over a real vocabulary.

use std::sync::Arc;

use clef_encoder::{EncodeErrorKind, Encoder, EncoderOptions, Tokenize, TokenizeError};
use clef_engine::{Encode, Refusal, RefusalKind};
use clef_llama::{Token, Vocabulary};
use clef_record::{Prompt, Record, TokenId};

use crate::error::{Error, ErrorKind, Result};
use crate::text::Text;

/// Encodes records for one model. Shared by the engine's encoding threads.
#[derive(Debug)]
pub struct RecordEncoder {
    tokenizer: VocabularyTokenizer,
    encoder: Encoder,
    options: EncoderOptions,
}

impl RecordEncoder {
    pub(crate) fn new(vocabulary: Arc<Vocabulary>, options: EncoderOptions) -> Result<Self> {
        let tokenizer = VocabularyTokenizer(vocabulary);
        let encoder = Encoder::new(&tokenizer)
            .map_err(|e| Error::new(ErrorKind::InvalidFile, format_args!("the prompt cannot be tokenized: {e}")))?;
        Ok(Self { tokenizer, encoder, options })
    }

    /// Encodes one record.
    ///
    /// # Errors
    /// As the encoder does.
    pub fn prompt(&self, record: &Record) -> std::result::Result<Prompt, clef_encoder::EncodeError> {
        self.encoder.encode(record, &self.tokenizer, &self.options)
    }

    /// The vocabulary.
    pub fn text(&self) -> Text {
        Text::new(Arc::clone(&self.tokenizer.0))
    }

    /// How every prompt starts.
    pub fn prefix(&self) -> &[TokenId] {
        self.encoder.prefix()
    }

    /// The limit on a prompt's tokens.
    pub fn context_tokens(&self) -> usize {
        self.options.context_tokens
    }
}

impl Encode for RecordEncoder {
    fn encode(&self, record: &Record) -> std::result::Result<Prompt, Refusal> {
        self.prompt(record).map_err(|error| {
            let kind = match error.kind() {
                EncodeErrorKind::TooLong { tokens, limit, .. }
                | EncodeErrorKind::SchemaTooLong { tokens, limit, .. } => RefusalKind::TooLong { tokens, limit },
                EncodeErrorKind::EmptyText => RefusalKind::Invalid,
                _ => RefusalKind::Internal,
            };
            Refusal { kind, message: error.message().to_owned(), loc: error.loc().to_vec() }
        })
    }
}

#[derive(Debug)]
struct VocabularyTokenizer(Arc<Vocabulary>);

impl Tokenize for VocabularyTokenizer {
    fn tokenize(&self, text: &str, out: &mut Vec<TokenId>) -> std::result::Result<(), TokenizeError> {
        let mut tokens: Vec<Token> = Vec::new();
        self.0.tokenize(text, &mut tokens).map_err(|error| TokenizeError::new(error.to_string()).with_source(error))?;
        out.extend(tokens.into_iter().map(|token| TokenId(token.0)));
        Ok(())
    }

    fn longest_token_bytes(&self) -> usize {
        self.0.longest_token_bytes()
    }
}
