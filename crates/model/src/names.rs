//! Names for what is shown: small numbers that stand for pixels.
//!
//! A prompt's tokens say what the model reads, and caches compare them one by one. A picture takes many positions, and
//! its pixels are large; so each position holds a number below zero that no two different pictures share, and the number
//! is found by the pixels' digest.

use std::collections::HashMap;

use clef_media::Digest;
use clef_record::TokenId;

/// How many digests are remembered. One that was forgotten gets another number: what is held of it is read again.
const REMEMBERED: usize = 1 << 16;

/// The frames of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    pub(crate) first: Digest,
    /// The second of two frames that are seen as one.
    pub(crate) second: Option<Digest>,
}

/// Numbers given out so far.
#[derive(Debug)]
pub(crate) struct Names {
    known: HashMap<Content, (TokenId, u64)>,
    next: i32,
    /// Counts uses, so that the least recently used can be forgotten.
    clock: u64,
}

impl Default for Names {
    fn default() -> Self {
        Self { known: HashMap::new(), next: -1, clock: 0 }
    }
}

impl Names {
    /// The name of some content; none once two thousand million were given out, which no name may be used for twice.
    pub(crate) fn name(&mut self, content: Content) -> Option<TokenId> {
        self.clock += 1;
        if let Some((name, used)) = self.known.get_mut(&content) {
            *used = self.clock;
            return Some(*name);
        }
        let name = TokenId(self.next);
        self.next = self.next.checked_sub(1)?;
        if self.known.len() == REMEMBERED {
            self.forget_half();
        }
        self.known.insert(content, (name, self.clock));
        Some(name)
    }

    fn forget_half(&mut self) {
        let mut uses: Vec<u64> = self.known.values().map(|(_, used)| *used).collect();
        let (_, &mut middle, _) = uses.select_nth_unstable(REMEMBERED / 2);
        self.known.retain(|_, (_, used)| *used > middle);
    }
}

#[cfg(test)]
mod tests {
    use clef_media::{Frame, Size};

    use super::*;

    fn content(number: u32) -> Content {
        let rgb = number.to_le_bytes()[..3].to_vec();
        Content { first: Frame::from_rgb(Size::new(1, 1), rgb).expect("a pixel").digest(), second: None }
    }

    #[test]
    fn equal_content_has_one_name_and_no_other_has_it() {
        let mut names = Names::default();
        let (one, other) = (names.name(content(1)), names.name(content(2)));
        assert_eq!(one, names.name(content(1)));
        assert_ne!(one, other);
        let twice = Content { second: Some(content(1).first), ..content(1) };
        assert!(![one, other].contains(&names.name(twice)));
        assert!(one.is_some_and(|name| name.0 < 0));
    }

    #[test]
    fn what_is_forgotten_gets_a_new_name() {
        let mut names = Names::default();
        let old = names.name(content(0));
        let kept = names.name(content(1));
        for number in 2..=REMEMBERED as u32 {
            names.name(content(number));
            assert_eq!(names.name(content(1)), kept);
        }
        let renewed = names.name(content(0));
        assert_ne!(renewed, old);
        assert_eq!(renewed.map(|name| name.0), Some(-(REMEMBERED as i32) - 2));
    }

    #[test]
    fn names_run_out_instead_of_coming_again() {
        let mut names = Names { next: i32::MIN + 1, ..Names::default() };
        assert!(names.name(content(1)).is_some());
        assert_eq!(names.name(content(2)), None);
        assert_eq!(names.name(content(3)), None);
        assert!(names.name(content(1)).is_some());
    }
}
