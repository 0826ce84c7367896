//! Which states of earlier prompts are remembered, and which of them a prompt can go on from.
//!
//! Why it exists: what to keep and what to drop is hard to get right and easy to test, as long as no model takes part.
//! So this is a plain data structure; what a model keeps of a state is a payload it never looks into.
//!
//! An entry can be rewound to each of its boundaries, and to nothing between them. A prompt is cut at places of its own
//! when it is read cold, and only a state that ends at one of those gives the same answer to the last bit. So a prompt
//! goes on from the longest length that is a boundary of an entry *and* a cut of the prompt, with equal tokens up to it:
//!
//! ```text
//! position    0         4     7   9   11
//! entry       a a a a | b b b | c c c c |            boundaries 4, 7, 11
//! prompt      a a a a | b b b | c c | x x x | y y    cuts 4, 7, 9, 12
//!                             ^     ^
//!                             |     shared_prefix: 9, where the two branch, but the entry has no boundary there
//!                             find: 7, or 4 if 7 were not a cut of the prompt
//! ```
//!
//! The prompt's own entry, once inserted with a boundary at 9, serves a third prompt that branches there too. (A cut
//! that depends on what is held makes the bits of an answer depend on it as well: that is for the caller to weigh.)
//!
//! Tokens are compared one by one, never by a hash: a wrong hit would be a wrong answer that nobody notices. A search
//! reads each entry up to where it branches off. An entry stands for megabytes of a model's memory, so there are at most
//! a few hundred: if 300 all shared 8,192 tokens with the prompt, a search would read 10 MB in one to three milliseconds,
//! against the computing of 8,192 tokens that it saves. Tens of thousands of small entries would want a tree instead.

use std::cmp::Reverse;
use std::sync::Arc;

use clef_record::TokenId;

use crate::traits::HeldState;

/// States of earlier prompts within a budget of bytes; the least recently used go first.
///
/// `P` is what a model keeps for a state, `K` what has to be equal for two positions to be the same.
#[derive(Debug)]
pub struct StateCache<P, K = TokenId> {
    /// The least recently used first, no two of equal tokens; their bytes add up to at most `budget`.
    entries: Vec<Entry<P, K>>,
    budget: usize,
}

#[derive(Debug)]
struct Entry<P, K> {
    tokens: Arc<[K]>,
    /// Strictly ascending, from above 0 up to the length of `tokens`.
    boundaries: Vec<usize>,
    payload: P,
    bytes: usize,
    uses: u64,
}

/// Where a prompt can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit<'cache, P> {
    /// Leading tokens of the prompt that need not be read again; at least one, and fewer than the prompt has.
    pub boundary: usize,
    /// What is kept for the entry, to be rewound to `boundary`.
    pub payload: &'cache P,
    /// The entry's own length in tokens; nothing has to be rewound if it equals `boundary`.
    pub tokens: usize,
}

impl<P, K: Eq> StateCache<P, K> {
    /// An empty cache. A budget of 0 keeps nothing, one of `usize::MAX` everything.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        Self { entries: Vec::new(), budget }
    }

    /// The longest state that a prompt of these tokens can go on from, if it is cut at `cuts` (ascending) when read
    /// cold. The entry becomes the most recently used one, and the use is counted.
    ///
    /// Never the whole prompt: the last token has to be read for there to be an answer. Of several entries with the same
    /// boundary it is the shortest, of which the least has to be rewound, and then the most recently used.
    pub fn find(&mut self, tokens: &[K], cuts: &[usize]) -> Option<Hit<'_, P>> {
        let (index, boundary) = self.best(tokens, cuts)?;
        self.entries[index..].rotate_left(1);
        let entry = self.entries.last_mut()?;
        entry.uses += 1;
        Some(Hit { boundary, payload: &entry.payload, tokens: entry.tokens.len() })
    }

    /// The boundary that [`find`](Self::find) would answer, 0 for none; counts and moves nothing.
    #[must_use]
    pub fn peek(&self, tokens: &[K], cuts: &[usize]) -> usize {
        self.best(tokens, cuts).map_or(0, |(_, boundary)| boundary)
    }

    /// The most leading tokens shared with any entry, at a boundary or not; at most all of them.
    ///
    /// Where it is more than [`peek`](Self::peek) says, two states branch: a boundary there would have helped.
    #[must_use]
    pub fn shared_prefix(&self, tokens: &[K]) -> usize {
        self.entries.iter().map(|entry| common_prefix(&entry.tokens, tokens)).max().unwrap_or(0)
    }

    /// Remembers a state as the most recently used one, and hands back the payloads that had to go for it.
    ///
    /// `tokens` is all of the state from position 0, `boundaries` the lengths that `payload` can be rewound to, and
    /// `bytes` what it is charged. These go:
    ///
    /// - an entry of equal tokens is replaced; its use count goes on, its boundaries do not;
    /// - a shorter entry that these tokens start with, if all its boundaries are among the new ones: it could serve no
    ///   prompt that the new one cannot. (A longer entry stays, and so does the new one: it is cheaper to rewind.)
    /// - after those, the least recently used entries, until the new one fits the budget.
    ///
    /// # Errors
    /// If [`would_keep`](Self::would_keep) says no to `bytes`: the payload comes back and nothing has changed.
    ///
    /// # Panics
    /// If `boundaries` do not ascend strictly from above 0 to the number of tokens.
    pub fn insert(&mut self, tokens: Arc<[K]>, boundaries: Vec<usize>, payload: P, bytes: usize) -> Result<Vec<P>, P> {
        assert!(
            boundaries.is_sorted_by(|a, b| a < b)
                && boundaries.first().is_some_and(|&first| first > 0)
                && boundaries.last() == Some(&tokens.len()),
            "boundaries ascend from above 0 to the {} tokens of the state: {boundaries:?}",
            tokens.len(),
        );
        if !self.would_keep(bytes) {
            return Err(payload);
        }
        let uses = self.entries.iter().find(|old| old.tokens == tokens).map_or(0, |old| old.uses);
        let new = Entry { tokens, boundaries, payload, bytes, uses };
        let superseded = self.entries.extract_if(.., |old| new.supersedes(old));
        let mut gone: Vec<P> = superseded.map(|old| old.payload).collect();
        let mut held = self.bytes();
        while held > self.budget - bytes {
            let oldest = self.entries.remove(0);
            held -= oldest.bytes;
            gone.push(oldest.payload);
        }
        self.entries.push(new);
        Ok(gone)
    }

    /// Whether an entry of so many bytes would be kept, whatever has to go for it: so that what would be refused need
    /// not be made.
    #[must_use]
    pub fn would_keep(&self, bytes: usize) -> bool {
        self.budget > 0 && bytes <= self.budget
    }

    /// What all entries are charged together; never more than the budget.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }

    /// The bytes that all entries together may take.
    #[must_use]
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Changes the budget, and hands back the payloads that had to go for it, the least recently used.
    pub fn set_budget(&mut self, budget: usize) -> Vec<P> {
        self.budget = budget;
        let mut held = self.bytes();
        let mut gone = Vec::new();
        while held > budget {
            let oldest = self.entries.remove(0);
            held -= oldest.bytes;
            gone.push(oldest.payload);
        }
        gone
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is remembered, the most recently used first.
    pub fn entries(&self) -> impl Iterator<Item = HeldState> {
        self.entries.iter().rev().map(|entry| HeldState {
            tokens: entry.tokens.len(),
            boundaries: entry.boundaries.clone(),
            bytes: entry.bytes,
            uses: entry.uses,
        })
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The entry to go on from, and its boundary.
    fn best(&self, tokens: &[K], cuts: &[usize]) -> Option<(usize, usize)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| Some((index, entry.reaches(tokens, cuts)?)))
            .max_by_key(|&(index, boundary)| (boundary, Reverse(self.entries[index].tokens.len()), index))
    }
}

impl<P, K: Eq> Entry<P, K> {
    /// The longest boundary that a prompt can go on from.
    fn reaches(&self, tokens: &[K], cuts: &[usize]) -> Option<usize> {
        let shared = common_prefix(&self.tokens, tokens);
        let usable =
            |boundary: usize| boundary <= shared && boundary < tokens.len() && cuts.binary_search(&boundary).is_ok();
        self.boundaries.iter().copied().rev().find(|&boundary| usable(boundary))
    }

    /// Whether there is nothing that only `other` could serve.
    fn supersedes(&self, other: &Self) -> bool {
        let same = self.tokens.len() == other.tokens.len();
        let covered = || other.boundaries.iter().all(|boundary| self.boundaries.binary_search(boundary).is_ok());
        (same || covered()) && self.tokens.starts_with(&other.tokens)
    }
}

/// How many leading elements are equal.
fn common_prefix<K: Eq>(a: &[K], b: &[K]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests;
