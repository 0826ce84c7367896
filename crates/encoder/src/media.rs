//! Pictures and videos between the prefix and the state.
//!
//! The encoder is told how many tokens they take and writes what stands around them; what they show is for the model.
//! A video is a row of steps, each with its time in front and laid out like a picture of its own.

use clef_record::{MediaSlot, Prompt, ShownPixels, TokenId};

use crate::layout;
use crate::tokenize::{Tokenize, TokenizeError};

/// The tokens of a picture or a video: rows of so many columns.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaShape {
    /// Rows of tokens; not zero.
    pub rows: usize,
    /// Tokens in a row; not zero.
    pub columns: usize,
    /// Of a video, the time of each step in seconds; none for a picture. Each step has all rows and columns.
    pub times: Option<Vec<f64>>,
}

impl MediaShape {
    /// The tokens that are shown, without those around them.
    pub fn shown_tokens(&self) -> usize {
        let steps = self.times.as_ref().map_or(1, Vec::len);
        self.rows.saturating_mul(self.columns).saturating_mul(steps)
    }
}

/// The tokens around what is shown; only models with a vision tower have them.
#[derive(Debug, Clone)]
pub(crate) struct MediaLayout {
    start: TokenId,
    end: TokenId,
    image_pad: TokenId,
    video_pad: TokenId,
    after: Vec<TokenId>,
}

impl MediaLayout {
    /// None if the vocabulary has no such tokens.
    pub(crate) fn new(tokenizer: &dyn Tokenize) -> Result<Option<Self>, TokenizeError> {
        let piece = |text: &str| {
            let mut tokens = Vec::new();
            tokenizer.tokenize(text, &mut tokens).map(|()| tokens)
        };
        let single = |text: &str| {
            piece(text).map(|tokens| match tokens.as_slice() {
                [token] => Some(*token),
                _ => None,
            })
        };
        let (start, end) = (single(layout::VISION_START)?, single(layout::VISION_END)?);
        let (image_pad, video_pad) = (single(layout::IMAGE_PAD)?, single(layout::VIDEO_PAD)?);
        let (Some(start), Some(end), Some(image_pad), Some(video_pad)) = (start, end, image_pad, video_pad) else {
            return Ok(None);
        };
        Ok(Some(Self { start, end, image_pad, video_pad, after: piece(layout::MEDIA_END)? }))
    }

    /// Appends a record's media to a prompt that ends with its prefix.
    pub(crate) fn append(
        &self,
        shapes: &[MediaShape],
        tokenizer: &dyn Tokenize,
        prompt: &mut Prompt,
    ) -> Result<(), TokenizeError> {
        for shape in shapes {
            match &shape.times {
                None => self.append_slot(shape, self.image_pad, prompt),
                Some(times) => {
                    prompt.tokens.push(self.start);
                    for &seconds in times {
                        tokenizer.tokenize(&layout::step_header(seconds), &mut prompt.tokens)?;
                        self.append_slot(shape, self.video_pad, prompt);
                    }
                    prompt.tokens.push(self.end);
                }
            }
            prompt.media_ends.push(prompt.tokens.len());
        }
        if !shapes.is_empty() {
            prompt.tokens.extend_from_slice(&self.after);
        }
        Ok(())
    }

    fn append_slot(&self, shape: &MediaShape, pad: TokenId, prompt: &mut Prompt) {
        prompt.tokens.push(self.start);
        let start = prompt.tokens.len();
        prompt.tokens.resize(start + shape.rows * shape.columns, pad);
        let span = start..prompt.tokens.len();
        prompt.media.push(MediaSlot { span, columns: shape.columns, shown: ShownPixels::none() });
        prompt.tokens.push(self.end);
    }
}
