//! The ways in which few and many options and questions read a prompt.

use std::path::Path;

use clef_head::CrossAttention;
use clef_llama::gguf::Gguf;
use clef_testkit::{Tiny, assert_close, largest_difference, tiny};

use crate::files::rewritten;
use crate::{Prompt, doc_example, head, head_of, reference, wide};

const WAYS: [CrossAttention; 2] = [CrossAttention::Projecting, CrossAttention::Absorbing];

/// Logits by either way.
fn by_both(path: &Path, prompt: &Prompt, rows: usize) -> [Vec<f64>; 2] {
    let mut head = head_of(path).unwrap();
    WAYS.map(|way| {
        head.set_cross_attention(way);
        wide(&prompt.logits_in_blocks(&mut head, rows))
    })
}

fn assert_both_close(what: &str, path: &Path, heads: u32, prompt: &Prompt) {
    let expected = reference::logits(&Gguf::open(path).unwrap(), heads as usize, prompt);
    for (way, logits) in WAYS.iter().zip(by_both(path, prompt, 512)) {
        assert_close(&format!("{what}, {way:?}"), &logits, &expected, 1e-4);
    }
}

#[test]
fn both_ways_agree_with_the_double_precision_implementation() {
    assert_both_close("the example", &tiny(Tiny::F32), 4, &doc_example());
    for (seed, tokens, options) in [
        (51, 20, vec![1]),
        (52, 90, vec![3]),
        (53, 371, vec![2, 4, 3]),
        (54, 700, vec![255]),
        (55, 500, vec![1; 64]),
        (56, 3000, vec![4; 4]),
    ] {
        assert_both_close(&format!("seed {seed}"), &tiny(Tiny::F32), 4, &Prompt::random(seed, tokens, &options));
    }
}

/// More scores than are held at once: attention runs in pieces, over options and over questions.
#[test]
fn attention_in_pieces_agrees_with_the_double_precision_implementation() {
    // Heads of width 1 make the most scores of the least work: 600 KiB for each query here, 109 of them at once.
    let heads = 256;
    let file = rewritten(&tiny(Tiny::F32), |header| header.put_u32("clef.decision.head_count", heads), |_| {});
    let mut options = vec![1; 115];
    options.push(60);
    assert_both_close("pieces", file.path(), heads, &Prompt::random(11, 600, &options));
}

#[test]
fn many_options_on_a_long_prompt_agree_with_the_double_precision_implementation() {
    // 4,000 tokens and 4 heads: 1,048 options are attended at once.
    let prompt = Prompt::random(12, 4000, &[300, 255, 255, 255]);
    assert_both_close("options", &tiny(Tiny::F32), 4, &prompt);
}

#[test]
fn both_ways_agree_on_weights_of_every_type() {
    let prompt = doc_example();
    for kind in Tiny::QUANTS.into_iter().chain([Tiny::BF16, Tiny::F32]) {
        let path = tiny(kind);
        let expected = reference::logits(&Gguf::open(&path).unwrap(), 4, &prompt);
        let [projecting, absorbing] = by_both(&path, &prompt, 512);
        // As far from the exact logits of these weights as the quantization of activations takes either.
        let tolerance = match kind {
            Tiny::F32 => 1e-5,
            Tiny::BF16 | Tiny::Q8_0 => 0.1,
            _ => 0.5,
        };
        let off = [&projecting, &absorbing].map(|logits| largest_difference(logits, &expected));
        eprintln!("{kind:?}: off by {off:?}");
        assert_close(&format!("{kind:?}"), &absorbing, &projecting, tolerance);
    }
}

/// The choice shows in the bits: few queries give those of the absorbing way, and many options neither's, as their
/// question still absorbs.
#[test]
fn few_questions_are_absorbed_and_many_options_projected() {
    let mut head = head();
    for (seed, tokens, options) in [(61, 371, vec![3]), (62, 1200, vec![4; 2]), (63, 700, vec![255])] {
        let prompt = Prompt::random(seed, tokens, &options);
        let [projecting, absorbing] = WAYS.map(|way| {
            head.set_cross_attention(way);
            prompt.logits(&mut head)
        });
        head.set_cross_attention(CrossAttention::Cheapest);
        let logits = prompt.logits(&mut head);
        assert!(projecting != absorbing && logits != projecting, "seed {seed}");
        assert_eq!(logits == absorbing, options != [255], "seed {seed}");
    }
}
