//! Names of pictures inside texts, replaced by what the model calls those pictures.
//!
//! Of placeholders that start at the same character the longest counts, then the text goes on behind it; what was put in
//! is not searched. Done plainly (try each name at each character) this is quadratic for names such as `aa...ab` in a
//! text of `a`s, and a client chooses both. So a text is read once through the tree of all names, which knows two things
//! about each of its nodes: if no name goes on from here, what of the text read so far is settled, and at which node,
//! nearer to the root, the rest of it stands.
//!
//! ```text
//! names: abcd, bx, c        after "ab",  before "x": settled is 'a'; the rest, "b", goes on to the name bx
//!                           after "abc", before "y": settled are 'a' and 'b'; the rest, "c", is a name, settled next
//! ```
//!
//! Every step either reads a byte or comes nearer to the root, so reading is linear in the text; the tree and what it
//! knows are linear in the names. (This is the way of Song et al., [Fast WordPiece Tokenization][1], section 3, with
//! single bytes as the words of last resort.) Bytes will do, because a name in UTF-8 only ever matches whole characters.
//!
//! [1]: https://arxiv.org/abs/2012.15524

use std::collections::VecDeque;

/// The node at which no name has begun.
const ROOT: usize = 0;

/// The placeholders of a record and what stands for them.
#[derive(Debug)]
pub(crate) struct Placeholders {
    /// What each placeholder is replaced by, and the placeholder's length.
    replacements: Vec<(String, usize)>,
    nodes: Vec<Node>,
    /// Lists, each from its last part to its first; many begin alike and share that.
    settled: Vec<Settled>,
}

/// A text that one or more placeholders begin with.
#[derive(Debug, Default)]
struct Node {
    /// The nodes that are one byte longer.
    next: Vec<(u8, usize)>,
    /// The placeholder that this is, if it is one.
    placeholder: Option<usize>,
    /// What is settled of it if no placeholder goes on; nothing at the root only.
    settled: Option<usize>,
    /// The rest of it that is not settled.
    rest: usize,
}

#[derive(Debug, Clone, Copy)]
struct Settled {
    part: Part,
    before: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Byte(u8),
    Placeholder(usize),
}

/// What a text becomes, piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaced<'a> {
    /// Bytes of the text; a character may be divided between two pieces.
    Text(&'a [u8]),
    /// What stands for a placeholder, and how much longer it is.
    Placeholder { replacement: &'a str, growth: usize },
}

impl Placeholders {
    /// Placeholders, all different and none empty, with their replacements.
    pub(crate) fn new<'a>(placeholders: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let mut known = Self { replacements: Vec::new(), nodes: vec![Node::default()], settled: Vec::new() };
        for (placeholder, replacement) in placeholders {
            known.insert(placeholder, replacement);
        }
        known.settle();
        known
    }

    /// How much longer a text of so many bytes can become, at most.
    pub(crate) fn most_growth(&self, bytes: usize) -> usize {
        let shortest = self.replacements.iter().map(|(_, length)| *length).min().unwrap_or(1);
        let longest = self.replacements.iter().map(|(replacement, _)| replacement.len()).max().unwrap_or(0);
        (bytes / shortest).saturating_mul(longest.saturating_sub(shortest))
    }

    /// Starts on a text.
    pub(crate) fn replacing(&self) -> Replacing<'_> {
        Replacing { placeholders: self, at: ROOT, settled: Vec::new() }
    }

    fn insert(&mut self, placeholder: &str, replacement: String) {
        let mut at = ROOT;
        for byte in placeholder.bytes() {
            at = self.next(at, byte).unwrap_or_else(|| {
                self.nodes.push(Node::default());
                let longer = self.nodes.len() - 1;
                self.nodes[at].next.push((byte, longer));
                longer
            });
        }
        self.nodes[at].placeholder = Some(self.replacements.len());
        self.replacements.push((replacement, placeholder.len()));
    }

    /// Finds out about all nodes, the shortest first: what is known of one comes from shorter ones.
    fn settle(&mut self) {
        let mut nodes = VecDeque::from([ROOT]);
        while let Some(node) = nodes.pop_front() {
            for (byte, longer) in self.nodes[node].next.clone() {
                let (settled, rest) = self.settle_one(node, byte, longer);
                self.nodes[longer].settled = Some(settled);
                self.nodes[longer].rest = rest;
                nodes.push_back(longer);
            }
        }
    }

    /// What is settled of the node that is `byte` longer than `node`, and the rest of it.
    fn settle_one(&mut self, node: usize, byte: u8, longer: usize) -> (usize, usize) {
        if let Some(placeholder) = self.nodes[longer].placeholder {
            return (self.append(None, Part::Placeholder(placeholder)), ROOT);
        }
        let (Some(mut settled), mut at) = (self.nodes[node].settled, self.nodes[node].rest) else {
            return (self.append(None, Part::Byte(byte)), ROOT);
        };
        loop {
            if let Some(next) = self.next(at, byte) {
                return (settled, next);
            }
            if at == ROOT {
                return (self.append(Some(settled), Part::Byte(byte)), ROOT);
            }
            let mut more = Vec::new();
            self.list(at, &mut more);
            for part in more.into_iter().rev() {
                settled = self.append(Some(settled), part);
            }
            at = self.nodes[at].rest;
        }
    }

    fn append(&mut self, before: Option<usize>, part: Part) -> usize {
        self.settled.push(Settled { part, before });
        self.settled.len() - 1
    }

    /// Appends what is settled at a node, the last part first.
    fn list(&self, node: usize, parts: &mut Vec<Part>) {
        let mut next = self.nodes[node].settled;
        while let Some(index) = next {
            let Settled { part, before } = self.settled[index];
            parts.push(part);
            next = before;
        }
    }

    fn next(&self, node: usize, byte: u8) -> Option<usize> {
        self.nodes[node].next.iter().find(|(found, _)| *found == byte).map(|(_, next)| *next)
    }
}

/// A text on its way through the tree.
#[derive(Debug)]
pub(crate) struct Replacing<'p> {
    placeholders: &'p Placeholders,
    at: usize,
    /// Empty between steps; kept for its memory.
    settled: Vec<Part>,
}

impl Replacing<'_> {
    /// Reads on, and writes what is settled.
    pub(crate) fn read(&mut self, text: &[u8], write: &mut impl FnMut(Replaced<'_>)) {
        let mut unread = text;
        while let Some((&byte, longer)) = unread.split_first() {
            if let Some(next) = self.placeholders.next(self.at, byte) {
                self.at = next;
                unread = longer;
            } else if self.at != ROOT {
                self.step_back(write);
            } else {
                let is_plain = |byte: &&u8| self.placeholders.next(ROOT, **byte).is_none();
                let (plain, rest) = unread.split_at(unread.iter().take_while(is_plain).count());
                write(Replaced::Text(plain));
                unread = rest;
            }
        }
    }

    /// Writes what is left when the text has ended.
    pub(crate) fn finish(mut self, write: &mut impl FnMut(Replaced<'_>)) {
        while self.at != ROOT {
            self.step_back(write);
        }
    }

    fn step_back(&mut self, write: &mut impl FnMut(Replaced<'_>)) {
        self.placeholders.list(self.at, &mut self.settled);
        for part in self.settled.drain(..).rev() {
            match part {
                Part::Byte(byte) => write(Replaced::Text(&[byte])),
                Part::Placeholder(index) => {
                    let (replacement, length) = &self.placeholders.replacements[index];
                    write(Replaced::Placeholder { replacement, growth: replacement.len().saturating_sub(*length) });
                }
            }
        }
        self.at = self.placeholders.nodes[self.at].rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Replaces the placeholders by `(0)`, `(1)`, ...; the text comes in pieces of so many bytes.
    fn replace(placeholders: &[&str], text: &str, piece_bytes: usize) -> String {
        let numbered = placeholders.iter().enumerate().map(|(index, name)| (*name, format!("({index})")));
        let placeholders = Placeholders::new(numbered);
        let mut out = Vec::new();
        let mut write = |replaced: Replaced<'_>| match replaced {
            Replaced::Text(bytes) => out.extend_from_slice(bytes),
            Replaced::Placeholder { replacement, .. } => out.extend_from_slice(replacement.as_bytes()),
        };
        let mut replacing = placeholders.replacing();
        for piece in text.as_bytes().chunks(piece_bytes) {
            replacing.read(piece, &mut write);
        }
        replacing.finish(&mut write);
        String::from_utf8(out).expect("whole characters")
    }

    fn replace_plainly(placeholders: &[&str], text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let starting = placeholders.iter().enumerate().filter(|(_, name)| rest.starts_with(**name));
            if let Some((index, name)) = starting.max_by_key(|(_, name)| name.len()) {
                out.push_str(&format!("({index})"));
                rest = &rest[name.len()..];
            } else {
                out.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
        out
    }

    #[test]
    fn the_longest_at_the_leftmost_place_counts() {
        for (placeholders, text, expected) in [
            (&["abcd", "bx", "c"][..], "abcy abx abcd abc", "ab(2)y a(1) (0) ab(2)"),
            (&["a", "aaab"], "aaaab aaa", "(0)(1) (0)(0)(0)"),
            (&["<1>", "<1>2"], "<1>2<1><1", "(1)(0)<1"),
            (&["(0)", "0"], "0(0)", "(1)(0)"),
            (&["é", "\u{e8}x"], "éè\u{e8}x", "(0)è(1)"),
            (&["x"], "", ""),
            (&[], "x", "x"),
        ] {
            assert_eq!(replace(placeholders, text, 100), expected, "{placeholders:?}");
        }
    }

    #[test]
    fn growth_is_bounded_by_the_shortest_name_and_the_longest_replacement() {
        let placeholders = Placeholders::new([("ab", "image 1".to_owned()), ("<image:2>", "image 2".to_owned())]);
        assert_eq!(placeholders.most_growth(9), 20);
        let placeholders = Placeholders::new([("<image:2>", "image 2".to_owned())]);
        assert_eq!(placeholders.most_growth(1_000), 0);
        assert_eq!(Placeholders::new([]).most_growth(1_000), 0);
    }

    #[test]
    fn names_made_to_be_expensive_cost_linear_time_and_memory() {
        let long = "a".repeat(1_000);
        let names = [format!("{long}b"), format!("b{long}c"), "a".to_owned(), "aa".to_owned()];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let placeholders = Placeholders::new(names.iter().map(|name| (*name, String::new())));
        assert!(placeholders.settled.len() <= 2_100, "{} parts", placeholders.settled.len());
        // Plainly done, this takes minutes.
        let text = "a".repeat(10_000_001);
        assert_eq!(replace(&names, &text, 1 << 20).len(), 5_000_001 * 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn as_if_done_plainly(
            placeholders in prop::collection::hash_set("[abé]{1,6}", 0..6),
            text in "[abcé]{0,60}",
            piece_bytes in 1_usize..70,
        ) {
            let placeholders: Vec<&str> = placeholders.iter().map(String::as_str).collect();
            prop_assert_eq!(replace(&placeholders, &text, piece_bytes), replace_plainly(&placeholders, &text));
        }
    }
}
