//! What is kept of a state so that a later prompt can go on from it.

use std::sync::Arc;

use clef_head::{Head, Reading};
use clef_llama::{Context, ContextParams, Model, SavedPart, SavedSequence, SequenceId, Token};

use crate::cuts::SHORTEST;
use crate::error::Result;

/// A state: the backbone's memory at its end, recurrent states at places before it, and the head's memory of its tokens.
///
/// The head's memory is a projection of the hidden states, of the head's width: no wider than the backbone's, exact, and
/// all that the head asks of tokens outside the questions.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) whole: SavedSequence,
    /// Shorter ones, ascending: with the keys and values of `whole` they are states of their own.
    pub(crate) waypoints: Vec<Arc<SavedSequence>>,
    /// A row of the head's width for each token.
    pub(crate) memory: Vec<f32>,
}

impl State {
    /// What it is charged.
    pub(crate) fn bytes(&self) -> usize {
        let waypoints: usize = self.waypoints.iter().map(|waypoint| waypoint.bytes()).sum();
        self.whole.bytes() + waypoints + size_of_val(self.memory.as_slice())
    }

    /// The lengths that a prompt can go on from, ascending.
    pub(crate) fn boundaries(&self) -> Vec<usize> {
        let lengths = self.waypoints.iter().map(|waypoint| waypoint.length() as usize);
        lengths.chain([self.whole.length() as usize]).collect()
    }

    /// The recurrent state at one of its boundaries.
    pub(crate) fn at(&self, boundary: usize) -> &SavedSequence {
        let waypoint = self.waypoints.iter().find(|waypoint| waypoint.length() as usize == boundary);
        waypoint.map_or(&self.whole, |waypoint| &**waypoint)
    }

    /// The head's memory of the tokens up to a boundary.
    pub(crate) fn memory_until(&self, boundary: usize) -> &[f32] {
        let width = self.memory.len() / self.whole.length() as usize;
        &self.memory[..boundary * width]
    }
}

/// Reads the fixed prefix, which every prompt goes on from.
///
/// It has fewer tokens than a piece should (see [`crate::cuts`]), so it is read in as many sequences side by side as it
/// takes, of which one is kept. They live in a small context of their own that is gone afterwards.
pub(crate) fn read_prefix(model: &Model, params: &ContextParams, head: &mut Head, tokens: &[Token]) -> Result<State> {
    let copies = SHORTEST.div_ceil(tokens.len());
    let rows = (copies * tokens.len()) as u32;
    let params = ContextParams { cells: rows, chunk: rows, sequences: copies as u32, ..params.clone() };
    let mut context = Context::new(model, &params)?;
    let parts: Vec<(SequenceId, &[Token])> = (0..copies as u32).map(|copy| (SequenceId(copy), tokens)).collect();
    let hidden = context.decode_together(&parts)?;
    let memory = Reading::project(head, &hidden.values[..tokens.len() * hidden.width])?;
    Ok(State { whole: context.save(SequenceId(0), SavedPart::Whole)?, waypoints: Vec::new(), memory })
}
