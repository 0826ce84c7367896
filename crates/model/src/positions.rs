//! Where each token of a prompt stands in time and space.
//!
//! The model rotates keys and queries along three axes: time, and row and column within a picture. Text moves along all
//! three at once. A picture takes one moment: its tokens share their time and differ in row and column, and what follows
//! it stands behind its longer side. So positions run behind the count of tokens once a picture was shown.

use clef_llama::Position;
use clef_record::Prompt;

/// The positions of a range of tokens, and that of the token after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) positions: Vec<Position>,
    pub(crate) next: u32,
}

/// Places the tokens `start..end` of a prompt.
pub(crate) fn place(prompt: &Prompt, start: usize, end: usize) -> Placed {
    let mut positions = Vec::with_capacity(end - start);
    // How far positions are behind the count of tokens.
    let mut lag = 0;
    let mut index = 0;
    let mut next = end;
    let text = |positions: &mut Vec<Position>, from: usize, to: usize, lag: usize| {
        positions.extend((from.max(start)..to.min(end)).map(|index| Position::text((index - lag) as u32)));
    };
    for slot in &prompt.media {
        if slot.span.start >= end {
            break;
        }
        text(&mut positions, index, slot.span.start, lag);
        let (first, columns) = (slot.span.start - lag, slot.columns);
        for index in slot.span.start.max(start)..slot.span.end.min(end) {
            let (row, column) = ((index - slot.span.start) / columns, (index - slot.span.start) % columns);
            let [time, row, column] = [first, first + row, first + column].map(|axis| axis as u32);
            positions.push(Position { time, row, column });
        }
        let side = columns.max(slot.span.len() / columns);
        lag += slot.span.len() - side;
        index = slot.span.end;
        next = end.max(slot.span.end);
    }
    text(&mut positions, index, end, lag);
    Placed { positions, next: (next - lag) as u32 }
}

#[cfg(test)]
mod tests {
    use clef_record::{MediaSlot, ShownPixels, TokenId};

    use super::*;

    fn prompt(tokens: usize, slots: &[(std::ops::Range<usize>, usize)]) -> Prompt {
        let slot = |(span, columns): &(std::ops::Range<usize>, usize)| MediaSlot {
            span: span.clone(),
            columns: *columns,
            shown: ShownPixels::none(),
        };
        Prompt {
            tokens: vec![TokenId(0); tokens],
            prefix_end: 0,
            media: slots.iter().map(slot).collect(),
            media_ends: Vec::new(),
            state_end: tokens,
            questions: Vec::new(),
            truncated_tokens: 0,
        }
    }

    fn axes(placed: &Placed) -> Vec<[u32; 3]> {
        placed.positions.iter().map(|position| [position.time, position.row, position.column]).collect()
    }

    #[test]
    fn text_stands_at_its_count() {
        let placed = place(&prompt(5, &[]), 2, 4);
        assert_eq!(axes(&placed), [[2; 3], [3; 3]]);
        assert_eq!(placed.next, 4);
    }

    #[test]
    fn a_picture_is_one_moment_and_as_long_as_its_longer_side() {
        let all = prompt(10, &[(2..8, 3)]);
        let placed = place(&all, 0, 10);
        let picture = [[2, 2, 2], [2, 2, 3], [2, 2, 4], [2, 3, 2], [2, 3, 3], [2, 3, 4]];
        assert_eq!(axes(&placed)[..2], [[0; 3], [1; 3]]);
        assert_eq!(axes(&placed)[2..8], picture);
        assert_eq!(axes(&placed)[8..], [[5; 3], [6; 3]]);
        assert_eq!(placed.next, 7);
    }

    #[test]
    fn positions_are_the_references() {
        let names =
            ["image-1040x80-half", "image-256x256-gradient", "image-300x200-shapes", "image-two", "video-3-frames-odd"];
        for name in names {
            let golden =
                clef_testkit::golden().into_iter().find(|golden| golden.name == name).expect("a golden record");
            // The first placeholder of each run of them, and how many there are.
            let is_shown = |id: i32| [4012, 4013].contains(&id);
            let mut grids = golden.media.grids.iter().flat_map(|&[times, _, columns]| vec![columns / 2; times]);
            let mut slots = Vec::new();
            let mut index = 0;
            for run in golden.input_ids.chunk_by(|a, b| a == b || !is_shown(*a) && !is_shown(*b)) {
                if is_shown(run[0]) {
                    slots.push((index..index + run.len(), grids.next().expect("a grid for each run")));
                }
                index += run.len();
            }
            assert!(grids.next().is_none() && !slots.is_empty(), "{name}");
            let placed = place(&prompt(golden.input_ids.len(), &slots), 0, golden.input_ids.len());
            let (shape, theirs) = clef_testkit::debug_array(&format!("{name}.position_ids"));
            assert_eq!(shape, [3, 1, golden.input_ids.len()], "{name}");
            let count = golden.input_ids.len();
            for (index, ours) in axes(&placed).iter().enumerate() {
                let theirs = [theirs[index], theirs[count + index], theirs[2 * count + index]];
                assert_eq!(ours.map(|axis| axis as f32), theirs, "{name}: {index}");
            }
        }
    }

    #[test]
    fn pieces_of_a_prompt_stand_where_they_stand_in_the_whole() {
        let all = prompt(40, &[(2..8, 3), (10..22, 2), (23..24, 1), (30..36, 6)]);
        let whole = axes(&place(&all, 0, 40));
        for start in 0..40 {
            for end in start + 1..=40 {
                assert_eq!(axes(&place(&all, start, end)), whole[start..end], "{start}..{end}");
            }
        }
        // Behind a piece that ends within a picture comes what is behind the picture.
        assert_eq!(place(&all, 0, 5).next, place(&all, 0, 8).next);
        assert_eq!(place(&all, 0, 40).next, 40 - 3 - 6);
    }
}
