//! The encoder itself: pieces in order, spans, and the limit.
//!
//! Everything but the state is counted first, because it has to be whole; the state takes what is left. Pieces that never
//! change are tokenized once, which for a short request is most of them.

use std::ops::Range;

use clef_record::{Prompt, PromptOption, PromptQuestion, Question, Record, TokenId, Truncate};

use crate::error::EncodeError;
use crate::layout;
use crate::limits::{self, Bounds};
use crate::media::{MediaLayout, MediaShape};
use crate::tokenize::{Tokenize, TokenizeError};

/// How many option headers are kept; the most options the API lets a question have.
const KEPT_OPTION_HEADERS: usize = 255;

/// A state that at most so many tokens could hold is tokenized whole even if fewer are kept, for an exact count of those
/// cut.
const HEAD_TOKENS: usize = 4_096;

/// How records are encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncoderOptions {
    /// The most tokens of a prompt; a request's `max_length` can lower it.
    pub context_tokens: usize,
    /// Writes `q1`, `q2`, ... on the prompt's `ID:` lines, so that renaming a question cannot move an answer. A question
    /// without instructions is still asked by its id.
    pub neutral_ids: bool,
}

impl Default for EncoderOptions {
    /// The reference's limit, 16,384 tokens, and its `ID:` lines.
    fn default() -> Self {
        Self { context_tokens: 16_384, neutral_ids: false }
    }
}

/// Lays out prompts for one vocabulary. Cheap to share between threads; about 20 KB.
#[derive(Debug, Clone)]
pub struct Encoder {
    prefix: Vec<TokenId>,
    schema_header: Vec<TokenId>,
    options_header: Vec<TokenId>,
    option_headers: Vec<Vec<TokenId>>,
    option_end: Vec<TokenId>,
    field_end: Vec<TokenId>,
    suffix: Vec<TokenId>,
    media: Option<MediaLayout>,
}

impl Encoder {
    /// Tokenizes the pieces that never change.
    ///
    /// # Errors
    /// If the tokenizer fails on one of them.
    pub fn new(tokenizer: &dyn Tokenize) -> Result<Self, TokenizeError> {
        let piece = |text: &str| {
            let mut tokens = Vec::new();
            tokenizer.tokenize(text, &mut tokens).map(|()| tokens)
        };
        Ok(Self {
            prefix: piece(layout::PREFIX)?,
            schema_header: piece(layout::SCHEMA_HEADER)?,
            options_header: piece(layout::OPTIONS_HEADER)?,
            option_headers: (1..=KEPT_OPTION_HEADERS)
                .map(|number| piece(&layout::option_header(number)))
                .collect::<Result<_, _>>()?,
            option_end: piece(layout::OPTION_END)?,
            field_end: piece(layout::FIELD_END)?,
            suffix: piece(layout::SUFFIX)?,
            media: MediaLayout::new(tokenizer)?,
        })
    }

    /// Whether the vocabulary has the tokens that stand around pictures and videos.
    pub fn takes_media(&self) -> bool {
        self.media.is_some()
    }

    /// The fixed prefix of every prompt; a prompt's `prefix_end` is its length.
    pub fn prefix(&self) -> &[TokenId] {
        &self.prefix
    }

    /// The prompt of a record of text. `tokenizer` must be the one that [`Encoder::new`] was given.
    ///
    /// # Errors
    /// As [`Encoder::encode_with_media`].
    pub fn encode(
        &self,
        record: &Record,
        tokenizer: &dyn Tokenize,
        options: &EncoderOptions,
    ) -> Result<Prompt, EncodeError> {
        self.encode_with_media(record, &[], tokenizer, options)
    }

    /// The prompt of a record whose pictures and videos have the given shapes, pictures first. Slots hold the vocabulary's
    /// placeholders until somebody says [what they show](Prompt::show).
    ///
    /// Time and memory are linear in the smaller of the record's text and the longest text that could fit the limit.
    ///
    /// # Errors
    /// See [`EncodeErrorKind`](crate::EncodeErrorKind). The schema is counted first: with
    /// [`Truncate::End`] only a schema over the limit is refused, otherwise any prompt over it.
    pub fn encode_with_media(
        &self,
        record: &Record,
        media: &[MediaShape],
        tokenizer: &dyn Tokenize,
        options: &EncoderOptions,
    ) -> Result<Prompt, EncodeError> {
        let limit = record.max_length.map_or(options.context_tokens, |length| length.min(options.context_tokens));
        let bounds = Bounds::new(tokenizer.longest_token_bytes());
        let shown_tokens = media.iter().fold(0_usize, |sum, shape| sum.saturating_add(shape.shown_tokens()));
        if shown_tokens > limit {
            return Err(EncodeError::media_too_long(shown_tokens, limit));
        }
        let schema = self.schema(record, tokenizer, options, bounds, limit)?;
        let mut prompt = self.beginning(media, tokenizer)?;
        let fixed_tokens = prompt.tokens.len() + schema.tokens.len();
        if fixed_tokens > limit {
            return Err(EncodeError::fixed_too_long(fixed_tokens, limit, !media.is_empty()));
        }
        prompt.truncated_tokens = append_state(record, tokenizer, bounds, limit, fixed_tokens, &mut prompt.tokens)?;
        prompt.state_end = prompt.tokens.len();
        prompt.tokens.extend_from_slice(&schema.tokens);
        prompt.questions = schema.questions_after(prompt.state_end);
        Ok(prompt)
    }

    /// Everything before the state.
    fn beginning(&self, media: &[MediaShape], tokenizer: &dyn Tokenize) -> Result<Prompt, EncodeError> {
        let mut prompt = Prompt {
            tokens: self.prefix.clone(),
            prefix_end: self.prefix.len(),
            media: Vec::new(),
            media_ends: Vec::new(),
            state_end: self.prefix.len(),
            questions: Vec::new(),
            truncated_tokens: 0,
        };
        if !media.is_empty() {
            let layout = self.media.as_ref().ok_or_else(EncodeError::no_media)?;
            layout.append(media, tokenizer, &mut prompt)?;
        }
        Ok(prompt)
    }

    /// Everything after the state.
    fn schema(
        &self,
        record: &Record,
        tokenizer: &dyn Tokenize,
        options: &EncoderOptions,
        bounds: Bounds,
        limit: usize,
    ) -> Result<Schema, EncodeError> {
        let fewest = bounds.fewest_tokens(limits::schema_bytes(record, options));
        if fewest > limit {
            return Err(EncodeError::schema_too_long(fewest, limit));
        }
        let mut schema =
            Schema { tokens: self.schema_header.clone(), questions: Vec::with_capacity(record.questions.len()) };
        for (index, question) in record.questions.iter().enumerate() {
            let number = index + 1;
            let prompted = if options.neutral_ids {
                self.question(question, number, &format!("q{number}"), tokenizer, &mut schema.tokens)?
            } else {
                self.question(question, number, &question.id, tokenizer, &mut schema.tokens)?
            };
            schema.questions.push(prompted);
        }
        schema.tokens.extend_from_slice(&self.suffix);
        Ok(schema)
    }

    fn question(
        &self,
        question: &Question,
        number: usize,
        shown_id: &str,
        tokenizer: &dyn Tokenize,
        tokens: &mut Vec<TokenId>,
    ) -> Result<PromptQuestion, EncodeError> {
        let header = layout::field_header(number, shown_id, question.kind.as_str());
        tokenizer.tokenize(&header, tokens)?;
        let span = append_span(tokenizer, &question.instruction, tokens)?;
        if span.is_empty() {
            return Err(EncodeError::empty_instruction(&question.id));
        }
        tokens.extend_from_slice(&self.options_header);
        let mut options = Vec::with_capacity(question.options.len());
        for (index, request_index) in question.prompt_order().into_iter().enumerate() {
            match self.option_headers.get(index) {
                Some(header) => tokens.extend_from_slice(header),
                None => tokenizer.tokenize(&layout::option_header(index + 1), tokens)?,
            }
            let option = &question.options[request_index];
            let span = append_span(tokenizer, &option.text, tokens)?;
            if span.is_empty() {
                return Err(EncodeError::empty_option(&question.id, &option.key));
            }
            tokens.extend_from_slice(&self.option_end);
            options.push(PromptOption { span, request_index });
        }
        tokens.extend_from_slice(&self.field_end);
        Ok(PromptQuestion { kind: question.kind, span, options })
    }
}

/// The tokens after the state, with spans that count from their first.
struct Schema {
    tokens: Vec<TokenId>,
    questions: Vec<PromptQuestion>,
}

impl Schema {
    /// The questions with spans that count from the prompt's first token.
    fn questions_after(mut self, state_end: usize) -> Vec<PromptQuestion> {
        let shift = |span: &mut Range<usize>| {
            span.start += state_end;
            span.end += state_end;
        };
        for question in &mut self.questions {
            shift(&mut question.span);
            for option in &mut question.options {
                shift(&mut option.span);
            }
        }
        self.questions
    }
}

fn append_span(tokenizer: &dyn Tokenize, text: &str, tokens: &mut Vec<TokenId>) -> Result<Range<usize>, TokenizeError> {
    let start = tokens.len();
    tokenizer.tokenize(text, tokens)?;
    Ok(start..tokens.len())
}

/// Appends the state's tokens as far as they are kept, and returns how many were cut.
fn append_state(
    record: &Record,
    tokenizer: &dyn Tokenize,
    bounds: Bounds,
    limit: usize,
    fixed_tokens: usize,
    tokens: &mut Vec<TokenId>,
) -> Result<usize, EncodeError> {
    let room = limit - fixed_tokens;
    let wanted = record.max_state_tokens.unwrap_or(usize::MAX);
    let fits = match record.truncate {
        Truncate::End => wanted.min(room),
        Truncate::None => wanted,
    };
    let state = if fits <= room {
        bounds.head(&record.state, fits.max(HEAD_TOKENS))
    } else {
        let fewest = bounds.fewest_tokens(record.state.len()).min(wanted);
        if fewest > room {
            return Err(EncodeError::too_long(fixed_tokens + fewest, limit, false));
        }
        &record.state
    };
    let start = tokens.len();
    let count = append_span(tokenizer, state, tokens)?.len();
    let kept = count.min(fits);
    if kept > room {
        return Err(EncodeError::too_long(fixed_tokens + kept, limit, true));
    }
    tokens.truncate(start + kept);
    let not_tokenized = record.state.len() - state.len();
    Ok(count - kept + bounds.fewest_tokens(not_tokenized))
}
