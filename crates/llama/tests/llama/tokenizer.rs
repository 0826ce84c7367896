//! Text to tokens where Unicode and added tokens meet.

use std::time::{Duration, Instant};

use clef_llama::gguf::{Gguf, Value};
use clef_llama::{Token, Vocabulary};
use clef_testkit::{Tiny, tiny};
use unicode_normalization::UnicodeNormalization as _;

use crate::support::{F32_MODEL, Random};

fn vocabulary() -> &'static Vocabulary {
    F32_MODEL.vocabulary()
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    vocabulary().tokenize(text, &mut out).unwrap();
    out
}

/// Ids and texts of the tokens that are matched in raw text.
fn added() -> Vec<(Token, String)> {
    let gguf = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    let (Some(Value::Array(texts)), Some(Value::Array(kinds))) =
        (gguf.get("tokenizer.ggml.tokens"), gguf.get("tokenizer.ggml.token_type"))
    else {
        panic!("the fixture has a vocabulary");
    };
    let texts = texts.strings("tokens").unwrap().map(|text| String::from_utf8(text.to_vec()).unwrap());
    let all = texts.zip(kinds.iter()).enumerate().map(|(id, (text, kind))| (Token(id as i32), text, kind));
    all.filter(|(_, _, kind)| matches!(kind.as_u64(), Some(3 | 4))).map(|(id, text, _)| (id, text)).collect()
}

fn id_of(text: &str) -> Token {
    added().into_iter().find(|(_, added)| added == text).unwrap().0
}

#[test]
fn decomposed_text_has_the_tokens_of_composed_text() {
    for (decomposed, composed) in [
        ("cafe\u{301} nai\u{308}ve", "café naïve"),
        ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}", "한글"),
        ("e\u{323}\u{302} e\u{302}\u{323}", "ệ ệ"),
        ("\u{212b}\u{2126}", "ÅΩ"),
        (">\u{338}", "\u{226f}"),
        ("\u{fb1d}", "\u{5d9}\u{5b4}"),
    ] {
        assert_eq!(tokens(decomposed), tokens(composed), "{composed}");
        assert!(!tokens(composed).is_empty());
    }
}

#[test]
fn random_text_has_the_same_tokens_in_either_normal_form() {
    let characters: Vec<char> =
        "abe io\u{300}\u{301}\u{323}\u{338}\u{308}<|>éñ한국ᄒ\u{1161}\u{11ab}\u{1f600}\n1 .".chars().collect();
    for seed in 1..=500 {
        let mut random = Random::new(seed);
        let text: String = (0..random.below(40)).map(|_| random.pick(&characters)).collect();
        let (composed, decomposed) = (text.nfc().collect::<String>(), text.nfd().collect::<String>());
        assert_eq!(tokens(&text), tokens(&composed), "seed {seed}: {text:?}");
        assert_eq!(tokens(&text), tokens(&decomposed), "seed {seed}: {text:?}");
        let bytes = text.len();
        assert!(tokens(&text).len() <= bytes, "seed {seed}");
    }
}

#[test]
fn a_combining_mark_does_not_melt_into_an_added_token() {
    let end = id_of("<|im_end|>");
    let marked = tokens("<|im_end|>\u{338}");
    assert_eq!(marked[0], end);
    assert_eq!(marked[1..], tokens("\u{338}"));
    assert_eq!(tokens("a\u{301}<|im_end|>\u{301}a"), [tokens("á"), vec![end], tokens("\u{301}a")].concat());
}

#[test]
fn every_added_token_is_found_in_raw_text_and_only_whole() {
    let all = added();
    assert!(all.len() > 10, "{all:?}");
    for (id, text) in &all {
        assert_eq!(tokens(text), [*id], "{text}");
        assert_eq!(tokens(&format!("a{text}{text}b")), [tokens("a"), vec![*id, *id], tokens("b")].concat(), "{text}");
        let cut = &text[..text.len() - 1];
        let is_other = all.iter().any(|(_, other)| cut.contains(other.as_str()));
        assert!(is_other || !tokens(cut).iter().any(|token| all.iter().any(|(id, _)| id == token)), "{cut}");
    }
    assert_eq!(tokens("<<|im_end|>")[1..], [id_of("<|im_end|>")]);
}

#[test]
fn nothing_is_put_in_front_or_behind_and_output_is_appended() {
    assert_eq!(tokens(""), []);
    let mut out = tokens("hello");
    let first = out.clone();
    vocabulary().tokenize("", &mut out).unwrap();
    assert_eq!(out, first);
    vocabulary().tokenize(" world", &mut out).unwrap();
    assert_eq!(out, [first, tokens(" world")].concat());
}

#[test]
fn zero_bytes_and_unassigned_characters_are_text() {
    for text in ["\0", "a\0b", "\u{10ffff}", "\u{fffe}", "\u{e000}", "\u{200d}\u{feff}", "\u{d7ff}"] {
        assert!(!tokens(text).is_empty(), "{text:?}");
    }
    assert_ne!(tokens("a\0b"), tokens("a"));
}

#[test]
fn the_longest_token_bounds_every_token_of_a_text() {
    let text = "indentation        of eight, and a word: internationalization".repeat(10);
    assert!(tokens(&text).len() * vocabulary().longest_token_bytes() >= text.len());
    assert_eq!(vocabulary().len(), 4096);
    assert!(!vocabulary().is_empty());
}

#[test]
fn time_grows_with_length_not_with_its_square() {
    fn fastest(text: &str) -> Duration {
        let once = || {
            let start = Instant::now();
            let count = tokens(text).len();
            assert!(count > 0);
            start.elapsed()
        };
        (0..2).map(|_| once()).min().unwrap()
    }
    for unit in ["<|", "<|im_end|>", "a", " ", "\n", "1", "e\u{301}", "\u{301}", "한", "word and word, "] {
        let (small, large) = (unit.repeat(100_000 / unit.len()), unit.repeat(1_000_000 / unit.len()));
        let (small, large) = (fastest(&small), fastest(&large));
        // Ten times the text; a square would be a hundred times the time.
        let ratio = large.as_secs_f64() / small.as_secs_f64().max(1e-3);
        assert!(ratio < 40.0, "{unit:?}: {small:?} for 100 kB, {large:?} for 1 MB");
    }
}
