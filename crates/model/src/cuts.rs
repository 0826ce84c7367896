//! Where a prompt is cut for decoding.
//!
//! On quantized weights a row's result depends on how many rows are computed with it, so equal answers need equal cuts:
//! after the fixed prefix, after each picture and video, at the end of the state, and at fixed intervals from each of
//! these.
//! Whether a cut is made depends on what stands before it and on the state's end, never on what is in memory. So a
//! prompt that goes on from a state in memory has just the chunks that it would have had cold, and a state that grew
//! keeps the cuts of the one that it grew from.
//!
//! Pieces of fewer than [`SHORTEST`] tokens are avoided. They read all weights for little work, and ggml's fused
//! attention adds up in 16 bits there: answers of clef-tiny in F32 then differ by 3.6e-4 from the reference's, by
//! 1.2e-4 otherwise. The prefix is shorter; it is read once, several times over side by side.
//!
//! A large picture is cut at intervals, too. No state can be kept there: the rows of a picture share their time, and what
//! a state is cut back by is time.

use clef_record::Prompt;

/// Rows from which on ggml's fused attention takes its tiled path (`GGML_FA_TILE_Q`).
pub(crate) const SHORTEST: usize = 64;

/// How long pieces are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// The distance between cuts.
    interval: usize,
    /// A rest shorter than this stays with the piece before it.
    shortest: usize,
}

impl Pieces {
    /// Where at most `chunk` tokens are decoded at once: a rest that is too short for a piece of its own has to fit in.
    pub(crate) fn new(chunk: usize) -> Self {
        if chunk < 2 * SHORTEST {
            return Self { interval: chunk, shortest: 1 };
        }
        Self { interval: (chunk - (SHORTEST - 1)) / SHORTEST * SHORTEST, shortest: SHORTEST }
    }
}

/// The cuts of one prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cuts {
    /// Ends of the chunks, ascending; the last is the prompt's.
    ends: Vec<usize>,
    /// Those that a state can be kept at.
    of_state: Vec<usize>,
    after_prefix: bool,
    /// The last one that is not behind the end of the last picture.
    after_media: Option<usize>,
}

impl Cuts {
    pub(crate) fn new(prompt: &Prompt, pieces: Pieces) -> Self {
        let (prefix, state, all) = (prompt.prefix_end, prompt.state_end, prompt.tokens.len());
        let mut ends = Vec::new();
        let mut start = 0;
        let after_prefix = prefix > 0 && prefix + SHORTEST <= all;
        if after_prefix {
            ends.push(prefix);
            start = prefix;
        }
        for &segment in prompt.media_ends.iter().chain([&state]) {
            if segment >= start + SHORTEST && segment + SHORTEST <= all {
                cut(start, segment, pieces, &mut ends);
                start = segment;
            }
        }
        cut(start, all, pieces, &mut ends);
        let is_within = |end: usize| prompt.media.iter().any(|slot| slot.span.start < end && end < slot.span.end);
        let behind_prefix = ends.iter().copied().skip(usize::from(after_prefix));
        let of_state: Vec<usize> = behind_prefix.filter(|&end| end <= state && !is_within(end)).collect();
        let media_end = prompt.media_ends.last();
        let after_media = media_end.and_then(|&media| of_state.iter().copied().rfind(|&end| end <= media));
        Self { ends, of_state, after_prefix, after_media }
    }

    /// Ends of all chunks, ascending.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// Those that a state can be kept at, and gone on from.
    pub(crate) fn of_state(&self) -> &[usize] {
        &self.of_state
    }

    /// The last of those that stands before the text of the state, if there are pictures.
    pub(crate) fn after_media(&self) -> Option<usize> {
        self.after_media
    }

    /// Whether the prompt is cut after its prefix.
    pub(crate) fn after_prefix(&self) -> bool {
        self.after_prefix
    }

    /// How many chunks lie behind `position`.
    pub(crate) fn chunks_after(&self, position: usize) -> usize {
        self.ends.len() - self.ends.partition_point(|&end| end <= position)
    }

    /// Whether the first `length` tokens are cut alike.
    pub(crate) fn agree(&self, other: &Self, length: usize) -> bool {
        let until = |cuts: &Self| cuts.ends.partition_point(|&end| end <= length);
        self.ends[..until(self)] == other.ends[..until(other)]
    }
}

/// Cuts a segment at intervals. A rest that is too short stays with the piece before it.
fn cut(start: usize, end: usize, pieces: Pieces, ends: &mut Vec<usize>) {
    let next = (start..end).step_by(pieces.interval).skip(1);
    ends.extend(next.take_while(|&next| next + pieces.shortest <= end));
    if start < end {
        ends.push(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clef_record::TokenId;

    /// Cuts every 192 tokens.
    const PIECES: Pieces = Pieces { interval: 192, shortest: SHORTEST };

    fn prompt(prefix_end: usize, state_end: usize, tokens: usize) -> Prompt {
        let tokens = vec![TokenId(0); tokens];
        Prompt {
            tokens,
            prefix_end,
            media: Vec::new(),
            media_ends: Vec::new(),
            state_end,
            questions: Vec::new(),
            truncated_tokens: 0,
        }
    }

    fn ends(prefix_end: usize, state_end: usize, tokens: usize, chunk: usize) -> Vec<usize> {
        Cuts::new(&prompt(prefix_end, state_end, tokens), Pieces::new(chunk)).ends
    }

    #[test]
    fn cuts_after_the_prefix_at_the_states_end_and_at_intervals_from_both() {
        assert_eq!(ends(37, 600, 900, 256), [37, 229, 421, 600, 792, 900]);
    }

    #[test]
    fn a_rest_too_short_for_a_piece_stays_with_the_one_before() {
        assert_eq!(ends(37, 37 + 192 + 63, 900, 256), [37, 292, 484, 676, 900]);
        assert_eq!(ends(37, 37 + 192 + 64, 400, 256), [37, 229, 293, 400]);
    }

    #[test]
    fn short_states_are_read_with_the_questions() {
        assert_eq!(ends(37, 100, 300, 256), [37, 229, 300]);
        assert_eq!(ends(37, 37, 180, 256), [37, 180]);
        assert_eq!(ends(37, 40, 90, 256), [90]);
    }

    #[test]
    fn no_piece_is_short_unless_the_prompt_or_the_chunk_is() {
        for tokens in 1..1500_usize {
            for state in [0, 37, tokens / 3, tokens / 2, tokens.saturating_sub(70), tokens] {
                for chunk in [40, 128, 200, 256, 512] {
                    let prefix = 37.min(state);
                    let cuts = ends(prefix, state, tokens, chunk);
                    let starts = std::iter::once(0).chain(cuts.iter().copied());
                    let lengths = cuts.iter().zip(starts).map(|(end, start)| end - start);
                    assert_eq!(cuts.last(), Some(&tokens));
                    let has_prefix = cuts.len() > 1 && cuts[0] == prefix;
                    for length in lengths.skip(usize::from(has_prefix)) {
                        assert!(length <= chunk, "{cuts:?}");
                        assert!(length >= SHORTEST.min(tokens) || chunk < 2 * SHORTEST, "{cuts:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_state_that_grew_keeps_its_cuts_but_the_last() {
        for grown in 700..1000 {
            let (before, after) =
                (Cuts::new(&prompt(37, 700, 900), PIECES), Cuts::new(&prompt(37, grown, grown + 150), PIECES));
            let kept = before.of_state().iter().rev().nth(1).copied().unwrap_or_default();
            assert!(after.of_state().contains(&kept), "{before:?} {after:?}");
            assert!(before.agree(&after, kept));
        }
    }

    #[test]
    fn states_are_kept_between_the_prefix_and_their_end() {
        let cuts = Cuts::new(&prompt(37, 600, 900), PIECES);
        assert_eq!(cuts.of_state(), [229, 421, 600]);
        assert!(cuts.after_prefix());
        assert_eq!(cuts.chunks_after(0), 6);
        assert_eq!(cuts.chunks_after(600), 2);
        let short = Cuts::new(&prompt(37, 40, 90), PIECES);
        assert!(short.of_state().is_empty() && !short.after_prefix());
    }

    #[test]
    fn pictures_are_cut_after_and_within_but_kept_after_only() {
        use clef_record::{MediaSlot, ShownPixels};
        let slot = |span: std::ops::Range<usize>| MediaSlot { span, columns: 10, shown: ShownPixels::none() };
        let mut prompt = prompt(37, 900, 1100);
        prompt.media = vec![slot(38..338), slot(340..440)];
        prompt.media_ends = vec![339, 441];
        let cuts = Cuts::new(&prompt, PIECES);
        assert_eq!(cuts.ends(), [37, 229, 339, 441, 633, 825, 900, 1100]);
        assert_eq!(cuts.of_state(), [339, 441, 633, 825, 900]);
        assert_eq!(cuts.after_media(), Some(441));
        assert_eq!(Cuts::new(&super::tests::prompt(37, 900, 1100), PIECES).after_media(), None);
    }

    #[test]
    fn prompts_that_are_cut_alike_so_far_agree() {
        let (one, other) = (Cuts::new(&prompt(37, 600, 900), PIECES), Cuts::new(&prompt(37, 500, 900), PIECES));
        assert!(one.agree(&other, 421));
        assert!(!one.agree(&other, 600));
    }

    #[test]
    fn intervals_leave_room_for_a_rest() {
        assert_eq!([40, 127, 128, 256, 512].map(|chunk| Pieces::new(chunk).interval), [40, 127, 64, 192, 448]);
        assert_eq!(Pieces::new(256), PIECES);
    }
}
