//! Sequences as bytes: taken out of a context and brought back.
//!
//! A recurrent state cannot be cut back, so a sequence can only go on from a place where its state was saved. What is
//! saved whole holds keys and values of every token; what is saved as [`SavedSequence::is_whole`] says is not, just the
//! recurrent state, of a fixed size: enough to rewind a sequence that still has its keys and values.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::context::{Context, Length, SequenceId};
use crate::error::{Error, Result};
use crate::model::Message;

/// A sequence's state at one length, in host memory. Made by [`Context::save`] only, and read only by contexts of the
/// same model and cache types; others refuse it.
pub struct SavedSequence {
    /// Locked, because the recurrent part is lent a header for the time it is read by itself.
    bytes: Mutex<Vec<u8>>,
    /// Where in `bytes` the recurrent state begins.
    recurrent: usize,
    length: Length,
}

/// How llama.cpp begins every saved state: a magic number and a sequence id, which it does not look at when reading.
const HEADER_BYTES: usize = 8;

/// What of a sequence is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavedPart {
    /// Keys, values and recurrent state.
    Whole,
    /// The recurrent state.
    Recurrent,
}

impl SavedSequence {
    /// Tokens of the sequence when it was saved.
    pub fn length(&self) -> u32 {
        self.length.tokens
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.locked().len()
    }

    /// Whether keys and values are in it.
    pub fn is_whole(&self) -> bool {
        self.recurrent > HEADER_BYTES
    }

    fn locked(&self) -> MutexGuard<'_, Vec<u8>> {
        // Nothing panics while it is held.
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for SavedSequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SavedSequence({} tokens, {} bytes, whole: {})", self.length.tokens, self.bytes(), self.is_whole())
    }
}

impl Context {
    /// Bytes that [`Context::save`] would take for a sequence as it is now.
    ///
    /// # Errors
    /// As [`Context::save`].
    pub fn saved_size(&mut self, sequence: SequenceId, part: SavedPart) -> Result<usize> {
        self.saved_length(sequence)?;
        let mut size = 0;
        let mut message = Message::default();
        // SAFETY: the context is live and the sequence exists; `size` is valid for writes.
        let status = unsafe {
            clef_sys::clef_sequence_state_size(
                self.raw(),
                sequence.0 as i32,
                part == SavedPart::Recurrent,
                &raw mut size,
                message.as_raw(),
            )
        };
        message.check(status, "the sequence cannot be saved")?;
        Ok(size)
    }

    /// Copies a sequence's state out. The sequence stays as it is.
    ///
    /// # Errors
    /// If there is no such sequence, it holds nothing, or a failed decode left it unusable.
    pub fn save(&mut self, sequence: SequenceId, part: SavedPart) -> Result<SavedSequence> {
        let length = self.saved_length(sequence)?;
        let size = self.saved_size(sequence, part)?;
        let recurrent = size - self.saved_size(sequence, SavedPart::Recurrent)? + HEADER_BYTES;
        let mut bytes: Vec<u8> = Vec::with_capacity(size);
        let mut written = 0;
        let mut message = Message::default();
        // SAFETY: the context is live and the sequence exists; the buffer takes `size` bytes.
        let status = unsafe {
            clef_sys::clef_sequence_state_get(
                self.raw(),
                sequence.0 as i32,
                part == SavedPart::Recurrent,
                bytes.as_mut_ptr(),
                size,
                &raw mut written,
                message.as_raw(),
            )
        };
        message.check(status, "the sequence cannot be saved")?;
        if written != size {
            return Err(Error::upstream(format_args!("{written} of {size} bytes of a sequence were saved")));
        }
        // SAFETY: that many bytes were written, and the capacity is no less.
        unsafe { bytes.set_len(written) };
        Ok(SavedSequence { bytes: Mutex::new(bytes), recurrent, length })
    }

    /// Replaces a sequence by one that was saved whole.
    ///
    /// It takes the same cells as when it was first read if no other sequence is in the context; what follows is then
    /// bit-equal to what would have followed the original.
    ///
    /// # Errors
    /// If there is no such sequence, keys and values were not saved, they come from a context of another kind, or the
    /// cells do not suffice. The sequence is empty then.
    pub fn restore(&mut self, sequence: SequenceId, saved: &SavedSequence) -> Result<()> {
        if !saved.is_whole() {
            return Err(Error::argument("keys and values of the sequence were not saved"));
        }
        self.clear_sequence(sequence)?;
        self.set_state(sequence, SavedPart::Whole, &saved.locked())?;
        self.set_length(sequence, Some(saved.length));
        Ok(())
    }

    /// Takes a sequence back to a length at which its state was saved, not one within a picture, whose rows share a time and
    /// go together. Keys and values up to there are those in the
    /// context: that they belong to the saved state is the caller's knowledge.
    ///
    /// # Errors
    /// If there is no such sequence, it is shorter than that, or the state comes from a context of another kind. The
    /// sequence must be cleared then.
    pub fn rewind(&mut self, sequence: SequenceId, saved: &SavedSequence) -> Result<()> {
        let length = self.saved_length(sequence)?;
        if length.tokens < saved.length.tokens || length.position < saved.length.position {
            return Err(Error::argument(format_args!(
                "a sequence of {} tokens cannot be rewound to {}",
                length.tokens, saved.length.tokens
            )));
        }
        self.set_length(sequence, None);
        let mut bytes = saved.locked();
        let header: [u8; HEADER_BYTES] = bytes[..HEADER_BYTES].try_into().expect("a state begins with a header");
        let recurrent = &mut bytes[saved.recurrent - HEADER_BYTES..];
        let lent: [u8; HEADER_BYTES] = recurrent[..HEADER_BYTES].try_into().expect("the header is within the state");
        recurrent[..HEADER_BYTES].copy_from_slice(&header);
        let set = self.set_state(sequence, SavedPart::Recurrent, recurrent);
        recurrent[..HEADER_BYTES].copy_from_slice(&lent);
        drop(bytes);
        set?;
        let mut message = Message::default();
        // SAFETY: the context is live and the sequence exists.
        let status = unsafe {
            clef_sys::clef_sequence_truncate(
                self.raw(),
                sequence.0 as i32,
                saved.length.position as i32,
                message.as_raw(),
            )
        };
        message.check(status, "the sequence cannot be cut")?;
        self.set_length(sequence, Some(saved.length));
        Ok(())
    }

    fn set_state(&mut self, sequence: SequenceId, part: SavedPart, bytes: &[u8]) -> Result<()> {
        self.check_sequence(sequence)?;
        self.set_length(sequence, None);
        let mut message = Message::default();
        // SAFETY: the context is live and the sequence exists; the bytes are a state that llama.cpp wrote, and it checks
        // that it is one of its own shape.
        let status = unsafe {
            clef_sys::clef_sequence_state_set(
                self.raw(),
                sequence.0 as i32,
                part == SavedPart::Recurrent,
                bytes.as_ptr(),
                bytes.len(),
                message.as_raw(),
            )
        };
        if let Err(error) = message.check(status, "the saved sequence cannot be brought back") {
            self.clear_sequence(sequence)?;
            return Err(error);
        }
        Ok(())
    }

    /// The length of a sequence that can be saved.
    fn saved_length(&self, sequence: SequenceId) -> Result<Length> {
        match self.sequence_length(sequence)? {
            Some(length) if length.tokens > 0 => Ok(length),
            _ => Err(Error::argument(format_args!("sequence {} holds nothing", sequence.0))),
        }
    }
}
