//! What an encoder makes of a record: tokens, and where in them everything is.
//!
//! This is the contract between three crates that do not know each other: the encoder writes it, the engine plans and
//! caches by its boundaries, the model reads hidden states at its spans. It lives here because this is the one crate all
//! of them depend on.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::record::QuestionKind;

/// A token of the model's vocabulary; below zero, the name of something that is shown (see [`Prompt::tokens`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(pub i32);

/// A record as the model reads it. All positions are indices into `tokens`.
///
/// The order is: fixed prefix, pictures and videos, state, schema, fixed suffix. Two records with equal media and state
/// share every token up to `state_end`, and any two records share those up to `prefix_end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// All tokens, in order. Where something is shown there is no token of the vocabulary but a name below zero, the same
    /// at every position of a slot: equal names are equal pixels, for as long as the process lives. So prompts, and
    /// beginnings of prompts, are the same for the model if their tokens are equal.
    pub tokens: Vec<TokenId>,
    /// End of the fixed prefix; media and state start here.
    pub prefix_end: usize,
    /// What is shown, in order, without overlap; all of it between `prefix_end` and `state_end`.
    pub media: Vec<MediaSlot>,
    /// Ends of the pictures and videos with the tokens around them, ascending. Prompts with the same first pictures share
    /// every token up to the last one's end.
    pub media_ends: Vec<usize>,
    /// End of the state; equals `prefix_end` when the state has no token.
    pub state_end: usize,
    /// The questions in request order.
    pub questions: Vec<PromptQuestion>,
    /// State tokens that were cut off. For a state of more bytes than the context could ever hold, a lower bound.
    pub truncated_tokens: usize,
}

impl Prompt {
    /// Says what a slot shows: `name` is below zero, and stands for the same pixels wherever it is used.
    ///
    /// # Panics
    /// If there is no such slot, or the name is a token's.
    pub fn show(&mut self, slot: usize, name: TokenId, shown: ShownPixels) {
        assert!(name.0 < 0, "a name is below zero, not {}", name.0);
        let slot = &mut self.media[slot];
        self.tokens[slot.span.clone()].fill(name);
        slot.shown = shown;
    }

    /// Lets go of all pixels: the model has seen them, or never will.
    pub fn drop_pixels(&self) {
        for slot in &self.media {
            slot.shown.release();
        }
    }
}

/// A run of positions in a [`Prompt`] that shows a picture, or a step of a video.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaSlot {
    /// The positions, row by row from the top; never empty, a multiple of `columns`.
    pub span: Range<usize>,
    /// Positions in a row.
    pub columns: usize,
    /// What is shown, for as long as nobody has looked.
    pub shown: ShownPixels,
}

/// Pixels that are held until the model has seen them. Clones share them; any thread.
#[derive(Clone)]
pub struct ShownPixels(Arc<Mutex<Option<Arc<Pixels>>>>);

impl ShownPixels {
    /// Holds pixels.
    pub fn new(pixels: Pixels) -> Self {
        Self(Arc::new(Mutex::new(Some(Arc::new(pixels)))))
    }

    /// Pixels that were let go from the start, for prompts that are only counted.
    pub fn none() -> Self {
        Self(Arc::new(Mutex::new(None)))
    }

    /// The pixels; none after they were let go.
    pub fn get(&self) -> Option<Arc<Pixels>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn release(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Whether they are equal is for the names in the tokens to say.
impl PartialEq for ShownPixels {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ShownPixels {}

impl fmt::Debug for ShownPixels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.get().is_some() { "ShownPixels(held)" } else { "ShownPixels(none)" })
    }
}

/// Opaque RGB, 8 bits a channel, rows from the top, no padding, at the size that the model sees.
pub struct Pixels {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// `width * height * 3` bytes each: one frame for a picture, as many as are seen as one for a step of a video.
    pub frames: Vec<Vec<u8>>,
    /// Lives as long as the pixels do: whoever bounds their memory puts the share here.
    pub share: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Pixels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pixels({}x{}, {} frames)", self.width, self.height, self.frames.len())
    }
}

/// Where one question stands in a [`Prompt`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptQuestion {
    /// What the question asks for.
    pub kind: QuestionKind,
    /// The instruction's tokens; never empty.
    pub span: Range<usize>,
    /// The options in prompt order.
    pub options: Vec<PromptOption>,
}

/// Where one option stands in a [`Prompt`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptOption {
    /// The option text's tokens; never empty.
    pub span: Range<usize>,
    /// The option's index in the request's order.
    pub request_index: usize,
}
