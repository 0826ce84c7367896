//! What the vision tower made of pictures, kept for the next time that they are shown.

use std::sync::Arc;

use clef_record::TokenId;

/// Rows of embeddings by name, the least recently used first, within a budget of bytes.
#[derive(Debug)]
pub(crate) struct Embedded {
    entries: Vec<(TokenId, Arc<[f32]>)>,
    bytes: usize,
    budget: usize,
}

impl Embedded {
    /// An empty cache. A budget of 0 keeps nothing.
    pub(crate) fn new(budget: usize) -> Self {
        Self { entries: Vec::new(), bytes: 0, budget }
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn holds(&self, name: TokenId) -> bool {
        self.entries.iter().any(|(known, _)| *known == name)
    }

    /// The rows of what has this name, which becomes the most recently used.
    pub(crate) fn get(&mut self, name: TokenId) -> Option<Arc<[f32]>> {
        let index = self.entries.iter().position(|(known, _)| *known == name)?;
        self.entries[index..].rotate_left(1);
        self.entries.last().map(|(_, rows)| Arc::clone(rows))
    }

    /// Keeps rows, and drops others for them; not if they alone are over the budget.
    pub(crate) fn insert(&mut self, name: TokenId, rows: &Arc<[f32]>) {
        let bytes = size_of_val(&**rows);
        if bytes > self.budget || self.holds(name) {
            return;
        }
        let mut over = (self.bytes + bytes).saturating_sub(self.budget);
        let dropped = self.entries.iter().take_while(|(_, rows)| {
            let is_needed = over > 0;
            over = over.saturating_sub(size_of_val(&**rows));
            is_needed
        });
        let count = dropped.count();
        self.bytes -= self.entries.drain(..count).map(|(_, rows)| size_of_val(&*rows)).sum::<usize>();
        self.entries.push((name, Arc::clone(rows)));
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Arc<[f32]> {
        vec![0.0; count].into()
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut embedded = Embedded::new(40);
        for name in [-1, -2] {
            embedded.insert(TokenId(name), &rows(5));
        }
        assert!(embedded.get(TokenId(-1)).is_some());
        embedded.insert(TokenId(-3), &rows(1));
        assert!(embedded.holds(TokenId(-1)) && !embedded.holds(TokenId(-2)));
        assert_eq!(embedded.bytes(), 24);
        embedded.insert(TokenId(-4), &rows(10));
        assert_eq!(embedded.bytes(), 40);
        assert!(embedded.get(TokenId(-4)).is_some_and(|rows| rows.len() == 10));
        assert!(embedded.get(TokenId(-3)).is_none());
    }

    #[test]
    fn what_is_over_the_budget_displaces_nothing() {
        let mut embedded = Embedded::new(40);
        embedded.insert(TokenId(-1), &rows(10));
        embedded.insert(TokenId(-2), &rows(11));
        assert!(embedded.holds(TokenId(-1)) && !embedded.holds(TokenId(-2)));
        let mut none = Embedded::new(0);
        none.insert(TokenId(-1), &rows(1));
        assert!(!none.holds(TokenId(-1)));
    }
}
