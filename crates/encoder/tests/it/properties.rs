//! Whatever the record and the limit: the prompt is within it, and its pieces are where it says.

use clef_encoder::{EncodeErrorKind, EncoderOptions};
use clef_record::{Record, Truncate};
use proptest::prelude::*;

use crate::characters::{Characters, encoder, span_texts, text};

fn quoted(text: &str) -> String {
    let escaped: String = text.chars().map(|character| format!("\\u{:04x}", u32::from(character))).collect();
    format!("\"{escaped}\"")
}

proptest! {
    #[test]
    fn a_prompt_keeps_its_limit_and_its_pieces(
        state in "[a-z<|>_ ]{0,40}",
        ids in prop::collection::btree_set("[a-z<|>_]{1,8}", 1..4),
        context_tokens in 200_usize..1_500,
        max_state_tokens in prop::option::of(0_usize..50),
        is_cut in any::<bool>(),
    ) {
        let questions: Vec<_> = ids.iter().map(|id| format!("{}:{{\"type\":\"noul\"}}", quoted(id))).collect();
        let body = format!("{{\"state\":{},\"questions\":{{{}}}}}", quoted(&state), questions.join(","));
        let mut record = Record::parse(body.as_bytes()).unwrap();
        record.max_state_tokens = max_state_tokens;
        record.truncate = if is_cut { Truncate::End } else { Truncate::None };
        let options = EncoderOptions { context_tokens, neutral_ids: false };
        match encoder().encode(&record, &Characters::default(), &options) {
            Ok(prompt) => {
                prop_assert!(prompt.tokens.len() <= context_tokens);
                let kept = prompt.state_end - prompt.prefix_end;
                prop_assert_eq!(kept + prompt.truncated_tokens, state.len());
                prop_assert_eq!(text(&prompt.tokens[prompt.prefix_end..prompt.state_end]), &state[..kept]);
                let printed = text(&prompt.tokens[prompt.state_end..]);
                for (id, spans) in record.questions.iter().zip(span_texts(&prompt)) {
                    prop_assert_eq!(&spans[0], &id.instruction);
                    let line = format!("INSTRUCTION: {}\n", id.instruction);
                    prop_assert!(printed.contains(&line));
                }
            }
            Err(error) => match error.kind() {
                EncodeErrorKind::TooLong { tokens, limit, is_exact } => {
                    prop_assert!(!is_cut && is_exact && tokens > limit);
                }
                EncodeErrorKind::SchemaTooLong { tokens, limit, .. } => prop_assert!(tokens > limit),
                kind => prop_assert!(false, "{:?}", kind),
            },
        }
    }
}
