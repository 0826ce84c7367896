//! The arrays that a `llama_batch` points into.

use clef_sys::llama_batch;

use crate::context::{Position, SequenceId};
use crate::tokenizer::Token;

/// Tokens of one or more sequences, or rows of embeddings of one; kept between decodes so that their memory is.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    tokens: Vec<i32>,
    /// Where there are no tokens.
    rows: Vec<f32>,
    /// Of tokens one each; of rows four sections, each with one for every row.
    positions: Vec<i32>,
    /// The sequence of each token.
    sequences: Vec<i32>,
    sequence_counts: Vec<i32>,
    sequence_lists: Vec<SequenceList>,
    outputs: Vec<i8>,
}

/// A pointer to a token's one sequence id; the type exists to give the pointer its own thread rules.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
struct SequenceList(*mut i32);

// SAFETY: the pointer leads into memory that its `Batch` owns, and is made anew before each use.
unsafe impl Send for SequenceList {}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.rows.clear();
        self.positions.clear();
        self.sequences.clear();
    }

    /// Adds tokens of a sequence at `start` and on.
    pub(crate) fn push(&mut self, sequence: SequenceId, start: u32, tokens: &[Token]) {
        let first = start as i32;
        self.tokens.extend(tokens.iter().map(|token| token.0));
        self.positions.extend((first..).take(tokens.len()));
        self.sequences.resize(self.tokens.len(), sequence.0 as i32);
    }

    /// Replaces everything by rows of embeddings of a sequence.
    pub(crate) fn set_rows(&mut self, sequence: SequenceId, rows: &[f32], positions: &[Position]) {
        self.clear();
        self.rows.extend_from_slice(rows);
        let axes: [fn(&Position) -> u32; 4] = [|p| p.time, |p| p.row, |p| p.column, |_| 0];
        for axis in axes {
            self.positions.extend(positions.iter().map(|position| axis(position) as i32));
        }
        self.sequences.resize(positions.len(), sequence.0 as i32);
    }

    /// The batch as llama.cpp takes it; valid until the batch is changed. With `last_logits` the last token asks for its
    /// logits, else none does.
    pub(crate) fn as_raw(&mut self, last_logits: bool) -> llama_batch {
        let count = self.sequences.len();
        self.sequence_counts.resize(count, 1);
        self.outputs.clear();
        self.outputs.resize(count, 0);
        if let Some(last) = self.outputs.last_mut() {
            *last = i8::from(last_logits);
        }
        self.sequence_lists.clear();
        self.sequence_lists.extend(self.sequences.iter_mut().map(|sequence| SequenceList(sequence)));
        llama_batch {
            n_tokens: count as i32,
            token: if self.rows.is_empty() { self.tokens.as_mut_ptr() } else { std::ptr::null_mut() },
            embd: if self.rows.is_empty() { std::ptr::null_mut() } else { self.rows.as_mut_ptr() },
            pos: self.positions.as_mut_ptr(),
            n_seq_id: self.sequence_counts.as_mut_ptr(),
            seq_id: self.sequence_lists.as_mut_ptr().cast(),
            logits: self.outputs.as_mut_ptr(),
        }
    }
}
