//! Where a prompt is cut for decoding.
//!
//! On quantized weights a row's result depends on how many rows are computed with it, so equal answers need equal
//! cuts: at the end of the state where that pays, and at fixed multiples from there. A state that is found in memory
//! then continues with just the chunks that a cold run would have had.
//!
//! Pieces of fewer than [`SHORTEST`] tokens are avoided. They read all weights for little work, and ggml's fused
//! attention adds up in 16 bits there: answers of clef-tiny in F32 then differ by 3.6e-4 from the reference's, by
//! 1.5e-4 otherwise.

use std::ops::Range;

/// Rows from which on ggml's fused attention takes its tiled path (`GGML_FA_TILE_Q`).
const SHORTEST: usize = 64;

/// The chunks of a prompt of `tokens` tokens: cut after each of `boundaries` (ascending) that leaves enough on both
/// sides, and then every `chunk`.
pub(crate) fn chunks(tokens: usize, boundaries: &[usize], chunk: usize) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut start = 0;
    for end in boundaries.iter().copied().filter(|end| end + SHORTEST <= tokens).chain([tokens]) {
        if end == tokens || end >= start + SHORTEST {
            cut(start..end, chunk, &mut all);
            start = end;
        }
    }
    all
}

/// Cuts a segment every `chunk` tokens. A short rest takes tokens from the piece before it.
fn cut(segment: Range<usize>, chunk: usize, all: &mut Vec<Range<usize>>) {
    let mut start = segment.start;
    while start < segment.end {
        let left = segment.end - start;
        let rest = left.saturating_sub(chunk);
        let lend = if (1..SHORTEST).contains(&rest) && chunk >= 2 * SHORTEST { SHORTEST - rest } else { 0 };
        let next = start + left.min(chunk) - lend;
        all.push(start..next);
        start = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_boundaries_and_multiples_from_there() {
        assert_eq!(chunks(900, &[200, 600], 200), [0..200, 200..400, 400..600, 600..800, 800..900]);
    }

    #[test]
    fn boundaries_too_near_to_another_cut_are_left_out() {
        assert_eq!(chunks(300, &[37, 120], 512), [0..120, 120..300]);
        assert_eq!(chunks(300, &[37, 63], 512), std::slice::from_ref(&(0..300)));
        assert_eq!(chunks(300, &[37, 250], 512), std::slice::from_ref(&(0..300)));
    }

    #[test]
    fn no_piece_is_short_unless_the_prompt_or_the_limit_is() {
        for tokens in 1..2000_usize {
            for boundaries in [vec![], vec![37, tokens / 2], vec![37, tokens.saturating_sub(70)]] {
                let pieces = chunks(tokens, &boundaries, 256);
                assert_eq!(pieces.iter().map(ExactSizeIterator::len).sum::<usize>(), tokens);
                assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert!(pieces.iter().all(|piece| (SHORTEST.min(tokens)..=256).contains(&piece.len())), "{pieces:?}");
            }
        }
    }

    #[test]
    fn a_longer_question_part_keeps_the_cuts_before_it() {
        let (short, long) = (chunks(900, &[37, 700], 256), chunks(2000, &[37, 700], 256));
        assert_eq!(short[..3], long[..3]);
        assert_eq!(long[2].end, 700);
    }

    #[test]
    fn chunks_smaller_than_the_shortest_piece_are_taken_as_they_are() {
        assert_eq!(chunks(10, &[], 4), [0..4, 4..8, 8..10]);
    }
}
