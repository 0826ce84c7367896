//! From logits to the response body.

use clef_record::{AnswerValue, Decision, Prompt, PromptOption, PromptQuestion, Record, RecordErrorKind, TokenId};

/// A prompt of the right shape, with made-up spans.
fn prompt_of(record: &Record) -> Prompt {
    let questions = record.questions.iter().map(|question| PromptQuestion {
        kind: question.kind,
        span: 0..1,
        options: question
            .prompt_order()
            .into_iter()
            .map(|request_index| PromptOption { span: 0..1, request_index })
            .collect(),
    });
    Prompt {
        tokens: vec![TokenId(0); 321],
        prefix_end: 0,
        media: Vec::new(),
        media_ends: Vec::new(),
        state_end: 0,
        questions: questions.collect(),
        truncated_tokens: 0,
    }
}

fn decide(body: &str, logits: &[&[f32]]) -> Decision {
    let record = Record::parse(body.as_bytes()).unwrap();
    let logits: Vec<_> = logits.iter().map(|row| row.to_vec()).collect();
    Decision::from_logits(&record, &prompt_of(&record), &logits).unwrap()
}

const THREE: &str = r#"{"state":"x","questions":{
    "route":{"type":"choice","criteria":{"technical":null,"billing":null}},
    "angry":{"type":"noul"},
    "urgency":{"type":"score","criteria":["can \"wait\"",{"b":1.50,"a":2},null,7.0]}}}"#;

#[test]
fn the_body_is_exactly_what_the_contract_says() {
    // Prompt order of the choice is billing, technical.
    let decision = decide(THREE, &[&[0.0, 1000.0], &[1.0, 1.0], &[0.0, 0.0, 0.0, 0.0]]);
    assert_eq!(
        decision.to_json("tiny \"1\""),
        concat!(
            r#"{"model":"tiny \"1\"","answers":{"#,
            r#""route":{"type":"choice","choice":"technical","confidence":1.0,"#,
            r#""probabilities":{"technical":1.0,"billing":0.0}},"#,
            r#""angry":{"type":"noul","noul":0.5},"#,
            r#""urgency":{"type":"score","score":1.5,"confidence":0.0,"#,
            r#""legend":{"0":"can \"wait\"","1":{"b":1.50,"a":2},"2":"","3":"7.0"},"#,
            r#""probabilities":{"0":0.25,"1":0.25,"2":0.25,"3":0.25}}},"#,
            r#""usage":{"input_tokens":321,"output_tokens":0}}"#,
        )
    );
}

#[test]
fn the_indented_body_holds_the_same() {
    let decision = decide(THREE, &[&[0.5, 0.25], &[3.0, -1.0], &[0.1, 0.9, 0.2, 0.3]]);
    let compact: serde_json::Value = serde_json::from_str(&decision.to_json("m")).unwrap();
    let pretty = decision.to_json_pretty("m");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&pretty).unwrap(), compact);
    assert!(pretty.starts_with("{\n  \"model\": \"m\",\n  \"answers\": {\n    \"route\": {\n"));
    assert!(pretty.ends_with("\"output_tokens\": 0\n  }\n}"));
}

#[test]
fn the_reference_example_comes_out_alike() {
    let body = r#"{"state":"x","questions":{
        "route":{"type":"choice","criteria":{"billing":null,"shipping":null,"technical":null}},
        "angry":{"type":"noul"},
        "urgency":{"type":"score","criteria":["can wait","this week","today","right now"]}}}"#;
    let decision = decide(
        body,
        &[
            &[2.537_231_4, 3.128_314_7, 3.281_951_4],
            &[1.824_328_4, -0.307_363_72],
            &[-0.971_128_1, -1.103_644_5, -2.000_653_7, 0.257_036_7],
        ],
    );
    let assert_close = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 5e-5, "{found} is not {expected}");
    };
    let [route, angry, urgency] = &decision.answers[..] else { panic!() };
    assert_eq!(route.choice(), Some(2));
    for (found, expected) in route.probabilities().zip([0.2036, 0.3677, 0.4287]) {
        assert_close(found, expected);
    }
    assert_close(angry.noul().unwrap(), 0.8939);
    assert_eq!(angry.confidence(), None);
    assert_close(urgency.score().unwrap(), 2.0954);
    for (found, expected) in urgency.probabilities().zip([0.1771, 0.1551, 0.0632, 0.6046]) {
        assert_close(found, expected);
    }
}

#[test]
fn shuffled_options_get_the_same_bits() {
    let body = |keys: &[&str]| {
        let members: Vec<_> = keys.iter().map(|key| format!("\"{key}\":null")).collect();
        format!(r#"{{"state":"x","questions":{{"q":{{"type":"choice","criteria":{{{}}}}}}}}}"#, members.join(","))
    };
    let logits: &[f32] = &[0.1, 0.7, -3.3, 0.01, 2.2];
    let straight = decide(&body(&["a", "b", "c", "d", "e"]), &[logits]);
    let shuffled = decide(&body(&["d", "a", "e", "c", "b"]), &[logits]);
    for option in &straight.answers[0].options {
        let other = shuffled.answers[0].options.iter().find(|other| other.key == option.key).unwrap();
        assert_eq!(option.probability.to_bits(), other.probability.to_bits());
    }
    assert_eq!(straight.answers[0].confidence(), shuffled.answers[0].confidence());
}

#[test]
fn equal_options_pick_the_first_in_the_request() {
    let body = r#"{"state":"x","questions":{"q":{"type":"choice","criteria":{"z":null,"a":null,"m":null}}}}"#;
    let decision = decide(body, &[&[1.0, 1.0, 1.0]]);
    assert_eq!(decision.answers[0].choice(), Some(0));
    assert!(decision.to_json("m").contains(r#""choice":"z","confidence":0.0"#));
}

#[test]
fn saturated_answers_print_zero_and_one() {
    let body = r#"{"state":"x","questions":{"q":{"type":"noul"},"s":{"type":"score","criteria":[0,1]}}}"#;
    for scale in [40.0, 1e3, 1e30_f32] {
        let printed = decide(body, &[&[-scale, scale], &[scale, -scale]]).to_json("m");
        assert!(printed.contains(r#""noul":0.0"#), "{printed}");
        assert!(printed.contains(r#""score":0.0,"confidence":1.0"#), "{printed}");
        assert!(printed.contains(r#""probabilities":{"0":1.0,"1":0.0}"#), "{printed}");
    }
}

#[test]
fn one_option_is_certain() {
    let body = r#"{"state":"x","questions":{"q":{"type":"choice","criteria":{"only":null}}}}"#;
    let decision = decide(body, &[&[-7.0]]);
    assert_eq!(decision.answers[0].value, AnswerValue::Choice { index: 0, confidence: 1.0 });
}

#[test]
fn logits_that_mean_nothing_are_the_models_fault() {
    let record = Record::parse(THREE.as_bytes()).unwrap();
    let prompt = prompt_of(&record);
    let good = vec![vec![0.0; 2], vec![0.0; 2], vec![0.0; 4]];
    assert!(Decision::from_logits(&record, &prompt, &good).is_ok());

    let mut cases = vec![good[..2].to_vec(), Vec::new()];
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut logits = good.clone();
        logits[2][3] = bad;
        cases.push(logits);
    }
    for length in [0, 1, 3] {
        let mut logits = good.clone();
        logits[1] = vec![0.0; length];
        cases.push(logits);
    }
    for logits in cases {
        let error = Decision::from_logits(&record, &prompt, &logits).unwrap_err();
        assert_eq!(error.kind(), RecordErrorKind::Logits, "{error}");
    }

    let mut wrong = prompt.clone();
    // Prompt order is billing, technical: now both would be technical.
    wrong.questions[0].options[0].request_index = 0;
    let error = Decision::from_logits(&record, &wrong, &good).unwrap_err();
    assert!(error.message().contains("question \"route\""), "{error}");
    wrong.questions[0].options[0].request_index = 9;
    assert!(Decision::from_logits(&record, &wrong, &good).is_err());
}
