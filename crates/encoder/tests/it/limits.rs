//! What fits, what is cut, what is refused.

use clef_encoder::{EncodeError, EncodeErrorKind, EncoderOptions};
use clef_record::{Prompt, Record, Truncate};

use crate::characters::{Characters, encoder, record, text};

/// A record with a state of so many characters.
fn with_state(state: &str) -> Record {
    let mut record = record(r#"{"state":"","questions":{"q":{"type":"choice","criteria":{"a":null,"b":null}}}}"#);
    record.state = state.to_owned();
    record
}

fn encode(record: &Record, context_tokens: usize) -> Result<Prompt, EncodeError> {
    let options = EncoderOptions { context_tokens, ..EncoderOptions::default() };
    encoder().encode(record, &Characters::default(), &options)
}

/// Tokens of everything but the state of [`with_state`].
fn schema_tokens() -> usize {
    encode(&with_state(""), 16_384).unwrap().tokens.len()
}

#[test]
fn a_prompt_of_exactly_the_limit_fits_and_one_more_does_not() {
    let schema = schema_tokens();
    let record = with_state(&"s".repeat(100));
    assert_eq!(encode(&record, schema + 100).unwrap().tokens.len(), schema + 100);
    let error = encode(&record, schema + 99).unwrap_err();
    assert_eq!(error.kind(), EncodeErrorKind::TooLong { tokens: schema + 100, limit: schema + 99, is_exact: true });
    assert_eq!(error.message(), format!("record has {} tokens, the limit is {}", schema + 100, schema + 99));
}

#[test]
fn max_length_lowers_the_limit_and_never_raises_it() {
    let schema = schema_tokens();
    let mut record = with_state("0123456789");
    record.max_length = Some(schema + 9);
    assert!(encode(&record, 16_384).is_err());
    record.max_length = Some(schema + 10);
    assert!(encode(&record, 16_384).is_ok());
    assert!(encode(&record, schema + 9).is_err());
    record.max_length = Some(usize::MAX);
    assert!(encode(&record, schema + 9).is_err());
}

#[test]
fn truncation_cuts_the_states_end_to_what_is_left() {
    let schema = schema_tokens();
    let mut record = with_state("0123456789");
    record.truncate = Truncate::End;
    for room in 0..=10 {
        let prompt = encode(&record, schema + room).unwrap();
        assert_eq!(prompt.tokens.len(), schema + room);
        assert_eq!(text(&prompt.tokens[prompt.prefix_end..prompt.state_end]), "0123456789"[..room]);
        assert_eq!(prompt.truncated_tokens, 10 - room);
        let whole = encode(&with_state(""), 16_384).unwrap();
        assert_eq!(prompt.tokens[prompt.state_end..], whole.tokens[whole.state_end..]);
        assert_eq!(prompt.questions[0].span.start - room, whole.questions[0].span.start);
    }
    assert_eq!(encode(&record, 16_384).unwrap().truncated_tokens, 0);
}

#[test]
fn a_schema_over_the_limit_is_refused_with_or_without_truncation() {
    let schema = schema_tokens();
    for truncate in [Truncate::None, Truncate::End] {
        let mut record = with_state("state");
        record.truncate = truncate;
        let error = encode(&record, schema - 1).unwrap_err();
        assert_eq!(error.kind(), EncodeErrorKind::SchemaTooLong { tokens: schema, limit: schema - 1, is_exact: true });
        assert!(error.message().contains(&format!("need {schema} tokens")), "{error}");
    }
}

#[test]
fn max_state_tokens_cuts_the_state_before_anything_else() {
    let schema = schema_tokens();
    let mut record = with_state("0123456789");
    for (wanted, kept) in [(0, 0), (3, 3), (10, 10), (11, 10), (usize::MAX, 10)] {
        record.max_state_tokens = Some(wanted);
        let prompt = encode(&record, 16_384).unwrap();
        assert_eq!(prompt.state_end - prompt.prefix_end, kept);
        assert_eq!(prompt.truncated_tokens, 10 - kept);
    }
    record.max_state_tokens = Some(4);
    assert!(encode(&record, schema + 4).is_ok());
    let error = encode(&record, schema + 3).unwrap_err();
    assert!(matches!(error.kind(), EncodeErrorKind::TooLong { tokens, .. } if tokens == schema + 4));
    record.truncate = Truncate::End;
    assert_eq!(encode(&record, schema + 3).unwrap().truncated_tokens, 7);
}

#[test]
fn a_state_that_cannot_fit_is_refused_before_it_is_tokenized() {
    let characters = Characters::default();
    let encoder = encoder();
    let record = with_state(&"s".repeat(5_000_000));
    let error = encoder.encode(&record, &characters, &EncoderOptions::default()).unwrap_err();
    let EncodeErrorKind::TooLong { tokens, limit, is_exact } = error.kind() else { panic!("{error}") };
    assert!(tokens > limit && !is_exact);
    assert!(error.message().starts_with("record has at least 78"), "{error}");
    assert!(characters.take_bytes() < 10_000);
}

#[test]
fn a_schema_that_cannot_fit_is_refused_before_it_is_tokenized() {
    let characters = Characters::default();
    let encoder = encoder();
    let mut record = with_state("");
    record.questions[0].id = "i".repeat(600_000);
    record.questions[0].instruction = "i".repeat(600_000);
    let error = encoder.encode(&record, &characters, &EncoderOptions::default()).unwrap_err();
    assert!(matches!(error.kind(), EncodeErrorKind::SchemaTooLong { is_exact: false, .. }), "{error}");
    assert!(error.message().len() < 500);
    assert_eq!(characters.take_bytes(), 0);
}

#[test]
fn of_a_state_that_cannot_fit_only_a_head_is_tokenized_when_it_is_cut() {
    let characters = Characters::default();
    let encoder = encoder();
    let schema = schema_tokens();
    let mut long = with_state(&"word ".repeat(10_000_000));
    long.truncate = Truncate::End;
    let prompt = encoder.encode(&long, &characters, &EncoderOptions::default()).unwrap();
    assert!(characters.take_bytes() < 2_000_000);
    assert_eq!(prompt.tokens.len(), 16_384);
    assert!(prompt.truncated_tokens > 16_384);

    let mut short = with_state(&"word ".repeat(10_000));
    short.truncate = Truncate::End;
    let other = encoder.encode(&short, &characters, &EncoderOptions::default()).unwrap();
    assert_eq!(prompt.tokens, other.tokens);
    assert_eq!(other.truncated_tokens, 50_000 - (16_384 - schema));

    long.truncate = Truncate::None;
    long.max_state_tokens = Some(7);
    let prompt = encoder.encode(&long, &characters, &EncoderOptions::default()).unwrap();
    assert_eq!(text(&prompt.tokens[prompt.prefix_end..prompt.state_end]), "word wo");
    assert!(characters.take_bytes() < 2_000_000);
}

#[test]
fn a_cut_inside_a_character_of_several_tokens_is_allowed() {
    let schema = schema_tokens();
    let mut record = with_state("退款订单😀");
    record.truncate = Truncate::End;
    let prompt = encode(&record, schema + 3).unwrap();
    assert_eq!(text(&prompt.tokens[prompt.prefix_end..prompt.state_end]), "退款订");
}
