//! What a prompt's positions are read from: rows of the embedding table for text, of the vision tower for pictures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clef_llama::Vision;
use clef_llama::gguf::{Gguf, TensorInfo};
use clef_record::{MediaSlot, Prompt, TokenId};

use crate::embedded::Embedded;
use crate::error::{Error, ErrorKind, Result};

/// The token embeddings of a model, read from its file, which the system keeps in memory as far as they are used.
#[derive(Debug)]
pub(crate) struct TokenTable {
    gguf: Arc<Gguf>,
    table: TensorInfo,
}

impl TokenTable {
    pub(crate) fn new(gguf: Arc<Gguf>) -> Result<Self> {
        let missing = || Error::new(ErrorKind::InvalidFile, "the tensor token_embd.weight is missing");
        let table = gguf.tensor("token_embd.weight").cloned().ok_or_else(missing)?;
        Ok(Self { gguf, table })
    }

    fn width(&self) -> usize {
        self.table.shape[0] as usize
    }

    fn row(&self, token: TokenId, out: &mut [f32]) -> Result<()> {
        Ok(self.gguf.dequantize_row(&self.table, token.0 as usize, out)?)
    }
}

/// The vision tower with what it made so far. Lives on the engine thread.
#[derive(Debug)]
pub(crate) struct Eye {
    vision: Vision,
    table: TokenTable,
    embedded: Embedded,
}

impl Eye {
    /// `cache_bytes` is what embeddings of pictures may take.
    pub(crate) fn new(vision: Vision, table: TokenTable, cache_bytes: usize) -> Self {
        Self { vision, table, embedded: Embedded::new(cache_bytes) }
    }

    /// Bytes of embeddings that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.embedded.bytes()
    }

    pub(crate) fn knows(&self, name: TokenId) -> bool {
        self.embedded.holds(name)
    }

    /// The embeddings of a slot that was seen before.
    pub(crate) fn recall(&mut self, name: TokenId) -> Option<Arc<[f32]>> {
        self.embedded.get(name)
    }

    /// Sees a slot.
    pub(crate) fn look(&mut self, slot: &MediaSlot, name: TokenId) -> Result<(Arc<[f32]>, Duration)> {
        let start = Instant::now();
        let gone = || Error::new(ErrorKind::Upstream, "the pixels of a picture were let go before it was seen");
        let pixels = slot.shown.get().ok_or_else(gone)?;
        let frames: Vec<&[u8]> = pixels.frames.iter().map(Vec::as_slice).collect();
        let rows: Arc<[f32]> = self.vision.encode(&frames, pixels.width, pixels.height)?.into();
        if rows.len() != slot.span.len() * self.table.width() {
            let message = format!("{} values for a picture of {} tokens", rows.len(), slot.span.len());
            return Err(Error::new(ErrorKind::Upstream, message));
        }
        self.embedded.insert(name, &rows);
        Ok((rows, start.elapsed()))
    }

    /// The rows of the positions `start..end`, given those of the slots among them.
    pub(crate) fn rows(
        &self,
        prompt: &Prompt,
        start: usize,
        end: usize,
        seen: impl Fn(usize) -> Option<Arc<[f32]>>,
    ) -> Result<Vec<f32>> {
        let width = self.table.width();
        let mut rows = vec![0.0; (end - start) * width];
        let mut out = rows.chunks_exact_mut(width).zip(start..end);
        let mut slots = prompt.media.iter().enumerate().filter(|(_, slot)| slot.span.end > start).peekable();
        while let Some((row, position)) = out.next() {
            match slots.next_if(|(_, slot)| slot.span.contains(&position)) {
                None => self.table.row(prompt.tokens[position], row)?,
                Some((index, slot)) => {
                    let missing = || Error::new(ErrorKind::Upstream, "a picture is read before it was seen");
                    let embeddings = seen(index).ok_or_else(missing)?;
                    let mut values = embeddings.chunks_exact(width).skip(position - slot.span.start);
                    let mut copy = |row: &mut [f32]| values.next().map(|values| row.copy_from_slice(values));
                    copy(row);
                    for (row, _) in out.by_ref().take(slot.span.end.min(end) - position - 1) {
                        copy(row);
                    }
                }
            }
        }
        Ok(rows)
    }
}
