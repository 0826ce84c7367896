//! Whatever the bytes: no panic, and bounded words about it.

use clef_record::{Decision, Prompt, PromptOption, PromptQuestion, Record, json};
use proptest::prelude::*;

const BODY: &str = r#"{"model":"m","state":{"b":[1.5e3,-0,"\ud83d\ude00\n"],"a":{"x":null},"a":true,
        "messages":[{"content":[{"type":"image_url","image_url":{"url":"data:,"}},"<a>"]}]},"questions":{
    "route":{"type":"choice","instructions":"Which?","criteria":{"b":null,"a":{"d":1}}},
    "angry":{"instructions":["é"],"type":"noul","criteria":{"true":"yes"}},
    "urgency":{"type":"score","criteria":["later",{"k":[]},7]}},"max_length":700,"truncate":"end",
    "images":["data:,",{"type":"input_image","image_url":"data:,"}],"assets":{"<a>":{"type":"image","data_base64":"A"}},
    "videos":[{"frames":["data:,"],"fps":2.5,"sample":false},"data:,"]}"#;

#[test]
fn the_body_that_is_changed_is_valid() {
    let record = Record::parse(BODY.as_bytes()).unwrap();
    assert_eq!((record.images.len(), record.videos.len()), (4, 2));
}

fn check(body: &[u8]) {
    if let Err(error) = Record::parse(body) {
        assert!(error.message().len() <= 1_000, "{error}");
        assert!(!error.loc().is_empty() && !error.slug().is_empty());
    }
}

/// JSON values as serde_json knows them, free of floats (it prints those otherwise).
fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().rev().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes(body in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&body);
    }

    #[test]
    fn any_json_characters(body in r#"[\[\]{}",:0-9eE.\\u+\- a-z\n]{0,80}"#) {
        check(body.as_bytes());
        if let Ok(printed) = json::dump_canonical(&body) {
            prop_assert_eq!(json::dump_canonical(&printed), Ok(printed));
        }
    }

    #[test]
    fn a_valid_body_with_bytes_exchanged(edits in prop::collection::vec((0..BODY.len(), any::<u8>()), 1..4)) {
        let mut body = BODY.as_bytes().to_vec();
        for (at, byte) in edits {
            body[at] = byte;
        }
        check(&body);
    }

    #[test]
    fn a_valid_body_cut_or_spliced(start in 0..BODY.len(), end in 0..BODY.len()) {
        let body = BODY.as_bytes();
        check(&body[..start]);
        check(&body[start..]);
        check(&[&body[..start], &body[end..]].concat());
    }

    #[test]
    fn floats_read_back(value in any::<f64>().prop_filter("finite", |value| value.is_finite())) {
        let printed = json::dump_canonical(&format!("{value:e}")).unwrap();
        prop_assert_eq!(printed.parse(), Ok(value));
    }

    #[test]
    fn values_keep_their_meaning(value in value()) {
        let printed = json::dump_canonical(&value.to_string()).unwrap();
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
        prop_assert_eq!(json::dump_canonical(&printed).unwrap(), printed);
    }

    #[test]
    fn finite_logits_make_probabilities(logits in prop::collection::vec(any::<f32>().prop_filter("finite", |logit| logit.is_finite()), 2..10)) {
        let body = serde_json::json!({"state": "x", "questions": {"q": {"type": "score", "criteria": vec!["level"; logits.len()]}}});
        let record = Record::parse(body.to_string().as_bytes()).unwrap();
        let options = (0..logits.len()).map(|request_index| PromptOption { span: 0..1, request_index });
        let prompt = Prompt {
            tokens: Vec::new(),
            prefix_end: 0,
            media: Vec::new(),
            media_ends: Vec::new(),
            state_end: 0,
            questions: vec![PromptQuestion { kind: record.questions[0].kind, span: 0..1, options: options.collect() }],
            truncated_tokens: 0,
        };
        let decision = Decision::from_logits(&record, &prompt, std::slice::from_ref(&logits)).unwrap();
        let answer = &decision.answers[0];
        let sum: f64 = answer.probabilities().sum();
        prop_assert!((sum - 1.0).abs() < 1e-6, "sums to {}", sum);
        let confidence = answer.confidence().unwrap();
        prop_assert!((0.0..=1.0).contains(&confidence));
        let printed = decision.to_json("m");
        prop_assert!(!printed.contains("NaN") && !printed.contains("inf"));
        for option in &answer.options {
            // serde_json may read a float one unit off, Rust's own parser does not.
            let (_, tail) = printed.rsplit_once("\"probabilities\":").unwrap();
            let (_, tail) = tail.split_once(&format!("\"{}\":", option.key)).unwrap();
            let (text, _) = tail.split_once([',', '}']).unwrap();
            prop_assert!(text.contains('.') && !text.contains('e'));
            prop_assert_eq!(text.parse(), Ok(option.probability));
        }
    }
}
