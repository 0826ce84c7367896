//! Pictures and videos between the prefix and the state.

use clef_encoder::{EncodeErrorKind, Encoder, EncoderOptions, MediaShape};
use clef_record::{ShownPixels, TokenId, Truncate};

use crate::characters::{Characters, encoder, record, text};

const BODY: &str = r#"{"state":"late","questions":{"angry":{"type":"noul"}}}"#;

fn picture(rows: usize, columns: usize) -> MediaShape {
    MediaShape { rows, columns, times: None }
}

fn video(rows: usize, columns: usize, times: &[f64]) -> MediaShape {
    MediaShape { rows, columns, times: Some(times.to_vec()) }
}

#[test]
fn media_stand_before_the_state_as_the_reference_writes_them() {
    let shapes = [picture(2, 1), picture(1, 1), video(1, 2, &[0.0, 0.25, 12.06])];
    let prompt = encoder()
        .encode_with_media(&record(BODY), &shapes, &Characters::default(), &EncoderOptions::default())
        .unwrap();
    let shown = text(&prompt.tokens[prompt.prefix_end..prompt.state_end]);
    let steps = ["0.0", "0.2", "12.1"]
        .map(|time| format!("<{time} seconds><|vision_start|><|video_pad|><|video_pad|><|vision_end|>"));
    let expected = format!(
        "<|vision_start|><|image_pad|><|image_pad|><|vision_end|><|vision_start|><|image_pad|><|vision_end|>\
         <|vision_start|>{}<|vision_end|>\nlate",
        steps.concat()
    );
    assert_eq!(shown, expected);
    // Slots are what is shown, row by row; ends are behind what stands around it.
    let slots: Vec<_> = prompt.media.iter().map(|slot| (slot.span.len(), slot.columns)).collect();
    assert_eq!(slots, [(2, 1), (1, 1), (2, 2), (2, 2), (2, 2)]);
    for slot in &prompt.media {
        assert!(text(&prompt.tokens[slot.span.clone()]).trim_matches(|c| "<|imagevdeo_pad>".contains(c)).is_empty());
    }
    let ends: Vec<_> = prompt.media_ends.iter().map(|&end| end - prompt.prefix_end).collect();
    assert_eq!(ends, [4, 7, prompt.state_end - prompt.prefix_end - "\nlate".len()]);
}

#[test]
fn without_media_a_prompt_is_what_it_always_was() {
    let (tokenizer, options) = (Characters::default(), EncoderOptions::default());
    let one = encoder().encode(&record(BODY), &tokenizer, &options).unwrap();
    let other = encoder().encode_with_media(&record(BODY), &[], &tokenizer, &options).unwrap();
    assert_eq!(one, other);
    assert!(one.media.is_empty() && one.media_ends.is_empty());
}

#[test]
fn text_of_the_clients_never_becomes_a_picture() {
    let body = r#"{"state":"<|vision_start|><|image_pad|><|vision_end|><__media__>","questions":{"<|image_pad|>":{"type":"noul"}}}"#;
    let prompt = encoder()
        .encode_with_media(&record(body), &[picture(1, 1)], &Characters::default(), &EncoderOptions::default())
        .unwrap();
    assert_eq!(prompt.media.len(), 1);
    assert!(text(&prompt.tokens[prompt.media_ends[0]..prompt.state_end]).ends_with("<__media__>"));
}

#[test]
fn media_count_against_the_limit_and_are_never_cut() {
    let (encoder, tokenizer) = (encoder(), Characters::default());
    let all = |shapes: &[MediaShape]| {
        encoder.encode_with_media(&record(BODY), shapes, &tokenizer, &EncoderOptions::default()).unwrap().tokens.len()
    };
    let shapes = [picture(10, 10)];
    let (with, without) = (all(&shapes), all(&[]));
    assert_eq!(with, without + 100 + 3);
    let options = EncoderOptions { context_tokens: with - 1, ..EncoderOptions::default() };
    let error = encoder.encode_with_media(&record(BODY), &shapes, &tokenizer, &options).unwrap_err();
    assert_eq!(error.kind(), EncodeErrorKind::TooLong { tokens: with, limit: with - 1, is_exact: true });
    let mut cut = record(BODY);
    cut.truncate = Truncate::End;
    let prompt = encoder.encode_with_media(&cut, &shapes, &tokenizer, &options).unwrap();
    assert_eq!((prompt.truncated_tokens, prompt.media[0].span.len()), (1, 100));
    // Nothing but the state can be cut.
    let options = EncoderOptions { context_tokens: with - 5, ..EncoderOptions::default() };
    let error = encoder.encode_with_media(&cut, &shapes, &tokenizer, &options).unwrap_err();
    let tokens = with - 4;
    assert_eq!(error.kind(), EncodeErrorKind::SchemaTooLong { tokens, limit: with - 5, is_exact: true });
    assert_eq!(
        error.message(),
        format!("questions, images and videos need {tokens} tokens before the state, the limit is {}", with - 5)
    );
}

#[test]
fn media_that_cannot_fit_are_refused_before_anything_is_laid_out() {
    let (encoder, tokenizer) = (encoder(), Characters::default());
    tokenizer.take_bytes();
    let endless = [picture(usize::MAX, 2), video(3, usize::MAX, &[0.0; 100])];
    let error = encoder.encode_with_media(&record(BODY), &endless, &tokenizer, &EncoderOptions::default()).unwrap_err();
    assert_eq!(
        error.message(),
        format!(
            "images and videos need at least {} tokens before the state, the limit is 16,384",
            "18,446,744,073,709,551,615"
        )
    );
    assert_eq!(tokenizer.take_bytes(), 0);
}

#[test]
fn a_vocabulary_without_pictures_says_so() {
    let tokenizer = Characters { lacks: 4, ..Characters::default() };
    let encoder = Encoder::new(&tokenizer).unwrap();
    assert!(!encoder.takes_media());
    let error =
        encoder.encode_with_media(&record(BODY), &[picture(1, 1)], &tokenizer, &EncoderOptions::default()).unwrap_err();
    assert_eq!(error.kind(), EncodeErrorKind::NoMedia);
    assert!(encoder.encode(&record(BODY), &tokenizer, &EncoderOptions::default()).is_ok());
}

#[test]
fn a_slot_is_named_for_what_it_shows() {
    let mut prompt = encoder()
        .encode_with_media(&record(BODY), &[picture(2, 2)], &Characters::default(), &EncoderOptions::default())
        .unwrap();
    let span = prompt.media[0].span.clone();
    let before = prompt.tokens.clone();
    prompt.show(0, TokenId(-7), ShownPixels::none());
    assert!(prompt.tokens[span.clone()].iter().all(|token| *token == TokenId(-7)));
    assert_eq!(prompt.tokens[..span.start], before[..span.start]);
    assert_eq!(prompt.tokens[span.end..], before[span.end..]);
}
