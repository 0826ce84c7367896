//! Text to tokens, as the reference's tokenizer does it.
//!
//! Hugging Face matches added tokens (`<|im_end|>` and the like) on the raw text first and normalizes what lies
//! between them to NFC; llama.cpp does not normalize at all. Normalizing the whole text would not do either: a
//! combining mark after `<|im_end|>` would melt into its `>`. So the text is split here, in one pass and linear time,
//! and llama.cpp only sees the pieces between added tokens.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

use crate::error::{Error, Result};
use crate::gguf::{Gguf, Value};
use crate::model::RawModel;
use crate::pieces::Pieces;

/// A token's row in the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Token(pub i32);

/// Token types as GGUF numbers them. Control and user-defined ones are matched in raw text.
const NORMAL: u64 = 1;
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;
const UNUSED: u64 = 5;

/// A model's vocabulary. Shared freely between threads.
#[derive(Debug)]
pub struct Vocabulary {
    model: Arc<RawModel>,
    added: AhoCorasick,
    /// Token of each pattern of `added`.
    added_tokens: Vec<Token>,
    pieces: Pieces,
    longest: usize,
}

impl Vocabulary {
    pub(crate) fn new(model: Arc<RawModel>, gguf: &Gguf) -> Result<Self> {
        let (Some(Value::Array(tokens)), Some(Value::Array(kinds))) =
            (gguf.get("tokenizer.ggml.tokens"), gguf.get("tokenizer.ggml.token_type"))
        else {
            return Err(Error::invalid("the vocabulary is missing"));
        };
        let mut patterns = Vec::new();
        let mut added_tokens = Vec::new();
        let mut pieces = Pieces::default();
        let mut longest = 1;
        for (id, (token, kind)) in tokens.strings("tokenizer.ggml.tokens")?.zip(kinds.iter()).enumerate() {
            longest = longest.max(token.len());
            match kind.as_u64() {
                Some(NORMAL) => pieces.push_encoded(token),
                Some(UNUSED) => pieces.push(&[]),
                _ => pieces.push(token),
            }
            if matches!(kind.as_u64(), Some(CONTROL | USER_DEFINED)) && !token.is_empty() {
                patterns.push(token);
                added_tokens.push(Token(id as i32));
            }
        }
        let added = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(patterns)
            .map_err(|e| Error::invalid(format_args!("the added tokens cannot be matched: {e}")))?;
        Ok(Self { model, added, added_tokens, pieces, longest })
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there are no tokens (never, for a loaded model).
    pub fn is_empty(&self) -> bool {
        self.pieces.len() == 0
    }

    /// The longest token's length in bytes of text. (Tokens are stored with one to two bytes for each byte of text,
    /// so this is an upper bound.)
    pub fn longest_token_bytes(&self) -> usize {
        self.longest
    }

    /// Appends the tokens of `text` to `out`: added tokens are recognized, nothing is put in front or behind.
    /// Linear in the length of the text. Any thread.
    ///
    /// # Errors
    /// If the text is longer than 2 GiB or llama.cpp cannot tokenize it.
    pub fn tokenize(&self, text: &str, out: &mut Vec<Token>) -> Result<()> {
        let mut start = 0;
        for found in self.added.find_iter(text) {
            self.plain(&text[start..found.start()], out)?;
            out.push(self.added_tokens[found.pattern().as_usize()]);
            start = found.end();
        }
        self.plain(&text[start..], out)
    }

    /// Appends the tokens of `text` to `out` with added tokens read as the characters that they are written with.
    /// Linear in the length of the text. Any thread.
    ///
    /// # Errors
    /// As [`Vocabulary::tokenize`].
    pub fn tokenize_plain(&self, text: &str, out: &mut Vec<Token>) -> Result<()> {
        self.plain(text, out)
    }

    /// The bytes that a token stands for, which need not be whole characters; none if there is no such token.
    pub fn piece(&self, token: Token) -> Option<&[u8]> {
        usize::try_from(token.0).ok().and_then(|index| self.pieces.get(index))
    }

    /// Whether a text ends with this token: the file's own end, or one of those that llama.cpp knows by name, such as
    /// `<|im_end|>` and `<|endoftext|>`.
    pub fn is_end(&self, token: Token) -> bool {
        // SAFETY: the vocabulary lives as long as the model it belongs to; any number may be asked.
        unsafe { clef_sys::llama_vocab_is_eog(self.model.vocabulary(), token.0) }
    }

    /// Whether a token steers the model and is no text to show, such as `<|im_start|>`.
    pub fn is_control(&self, token: Token) -> bool {
        if self.piece(token).is_none() {
            return false;
        }
        // SAFETY: the vocabulary lives as long as the model it belongs to, and the token is one of its own.
        unsafe { clef_sys::llama_vocab_is_control(self.model.vocabulary(), token.0) }
    }

    /// Tokenizes text without added tokens.
    fn plain(&self, text: &str, out: &mut Vec<Token>) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let normalized;
        let text = if is_nfc_quick(text.chars()) == IsNormalized::Yes {
            text
        } else {
            normalized = text.nfc().collect::<String>();
            &normalized
        };
        let length = i32::try_from(text.len())
            .map_err(|_| Error::argument(format_args!("a text of {} bytes, the limit is 2 GiB", text.len())))?;
        // A byte is at most one token, so the first call always has room.
        let used = out.len();
        out.resize(used + text.len(), Token(0));
        let mut count = 0;
        let mut message = crate::model::Message::default();
        // SAFETY: the vocabulary lives as long as the model it belongs to; `text` has `length` bytes; the tail of
        // `out` has room for `length` tokens, and `Token` has the layout of `llama_token`.
        let status = unsafe {
            clef_sys::clef_tokenize(
                self.model.vocabulary(),
                text.as_ptr().cast(),
                length,
                out[used..].as_mut_ptr().cast(),
                length,
                &raw mut count,
                message.as_raw(),
            )
        };
        let count = message.check(status, "the text cannot be tokenized").and_then(|()| {
            usize::try_from(count).map_err(|_| Error::upstream(format_args!("{length} bytes became {count} tokens")))
        });
        out.truncate(used + count.as_ref().copied().unwrap_or(0));
        count.map(|_| ())
    }
}
