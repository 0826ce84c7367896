//! The engine's encoder over a real vocabulary.

use std::sync::Arc;

use clef_encoder::{EncodeError, EncodeErrorKind, Encoder, EncoderOptions, Tokenize, TokenizeError};
use clef_engine::{Encode, Refusal, RefusalKind};
use clef_llama::{Token, Vocabulary};
use clef_record::{LocItem, Prompt, Record, TokenId};

use crate::error::{Error, ErrorKind, Result};
use crate::media::Gallery;
use crate::text::Text;

/// Encodes records for one model. Shared by the engine's encoding threads.
#[derive(Debug)]
pub struct RecordEncoder {
    tokenizer: VocabularyTokenizer,
    encoder: Encoder,
    options: EncoderOptions,
    /// None for a model of text only.
    gallery: Option<Gallery>,
}

impl RecordEncoder {
    pub(crate) fn new(vocabulary: Arc<Vocabulary>, options: EncoderOptions, gallery: Option<Gallery>) -> Result<Self> {
        let tokenizer = VocabularyTokenizer(vocabulary);
        let encoder = Encoder::new(&tokenizer)
            .map_err(|e| Error::new(ErrorKind::InvalidFile, format_args!("the prompt cannot be tokenized: {e}")))?;
        if gallery.is_some() && !encoder.takes_media() {
            let message = "a projector was given, but the model's vocabulary has no tokens for images and videos";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Self { tokenizer, encoder, options, gallery })
    }

    /// Encodes one record: tokens, spans, and the decoded pixels of whatever it shows.
    ///
    /// # Errors
    /// If the record cannot be asked of this model.
    pub fn prompt(&self, record: &Record) -> std::result::Result<Prompt, Refusal> {
        let shown = record.images.first().map(|image| &image.loc);
        let Some(loc) = shown.or_else(|| record.videos.first().map(|video| &video.loc)) else {
            return self.encoder.encode(record, &self.tokenizer, &self.options).map_err(|error| refusal(&error));
        };
        let gallery = self.gallery.as_ref().ok_or_else(|| no_projector(loc))?;
        let opened = gallery.open(&record.images, &record.videos)?;
        let mut prompt = self
            .encoder
            .encode_with_media(record, &opened.shapes(), &self.tokenizer, &self.options)
            .map_err(|error| refusal(&error))?;
        opened.hang(&mut prompt)?;
        Ok(prompt)
    }

    /// Whether it takes images and videos.
    pub fn takes_media(&self) -> bool {
        self.gallery.is_some()
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
        self.prompt(record)
    }
}

fn refusal(error: &EncodeError) -> Refusal {
    let kind = match error.kind() {
        EncodeErrorKind::TooLong { tokens, limit, .. } | EncodeErrorKind::SchemaTooLong { tokens, limit, .. } => {
            RefusalKind::TooLong { tokens, limit }
        }
        EncodeErrorKind::EmptyText => RefusalKind::Invalid,
        EncodeErrorKind::NoMedia => RefusalKind::NotSupported,
        _ => RefusalKind::Internal,
    };
    Refusal { kind, message: error.message().to_owned(), loc: error.loc().to_vec() }
}

pub(crate) fn no_projector(loc: &[LocItem]) -> Refusal {
    let place: Vec<String> = loc.iter().skip(1).map(ToString::to_string).collect();
    let message = format!(
        "{}: no projector is loaded, so this model sees no images and videos; start with --mmproj FILE",
        place.join(".")
    );
    Refusal { kind: RefusalKind::NotSupported, message, loc: loc.to_vec() }
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
