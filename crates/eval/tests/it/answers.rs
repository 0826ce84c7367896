//! Responses: half an answer is none.

use clef_eval::{AnswerErrorKind, Case, read_answers};
use serde_json::{Value, json};

fn case() -> Case {
    let line = json!({
        "state": "s",
        "questions": {
            "n": {"type": "noul"},
            "c": {"type": "choice", "criteria": {"red": null, "blue": null}},
            "s": {"type": "score", "criteria": ["low", "mid", "high"]},
        },
    });
    Case::parse(1, line.to_string().as_bytes(), false).unwrap()
}

fn response() -> Value {
    json!({
        "model": "m",
        "answers": {
            "s": {"type": "score", "score": 1.1, "legend": {}, "probabilities": {"2": 0.2, "0": 0.1, "1": 0.7}, "confidence": 0.5},
            "n": {"type": "noul", "noul": 0.75},
            "c": {"type": "choice", "choice": "blue", "probabilities": {"red": 0.5, "blue": 0.5}, "confidence": 0.0},
        },
        "usage": {"input_tokens": 1, "output_tokens": 0},
    })
}

#[test]
fn a_response_is_read_in_the_order_asked() {
    let answers = read_answers(response().to_string().as_bytes(), &case().questions).unwrap();
    let ids: Vec<_> = answers.iter().map(|answer| answer.question.as_str()).collect();
    assert_eq!(ids, ["n", "c", "s"]);
    assert_eq!(answers[0].probabilities, [0.75, 0.25]);
    assert_eq!(answers[0].options, ["true", "false"]);
    // Of equals the first, whatever the server says.
    assert_eq!((answers[1].pick(), answers[1].confidence()), (0, 0.5));
    assert_eq!(answers[2].probabilities, [0.1, 0.7, 0.2]);
    assert!((answers[2].level() - 1.1).abs() < 1e-12);
}

#[test]
fn four_digits_are_enough() {
    let mut rounded = response();
    rounded["answers"]["s"]["probabilities"] = json!({"0": 0.3333, "1": 0.3333, "2": 0.3333});
    read_answers(rounded.to_string().as_bytes(), &case().questions).unwrap();
}

#[test]
fn what_is_not_an_answer_to_every_question_is_refused() {
    let changed = |pointer: &str, value: Value| {
        let mut response = response();
        *response.pointer_mut(pointer).unwrap() = value;
        response.to_string()
    };
    for (body, expected) in [
        ("<html>".to_owned(), "response is not JSON: expected value at line 1 column 1"),
        ("{}".to_owned(), "response has no object \"answers\""),
        (changed("/answers", json!([])), "response has no object \"answers\""),
        (changed("/answers", json!({})), "response does not answer \"n\""),
        (changed("/answers/n", json!({"type": "choice"})), "answer to \"n\" is of type choice, noul was asked"),
        (changed("/answers/n", json!(1)), "answer to \"n\" is of type none, noul was asked"),
        (changed("/answers/n", json!({"type": "noul"})), "answer to \"n\" lacks \"noul\""),
        (changed("/answers/n/noul", Value::Null), "answer to \"n\": \"noul\" is null, not a number"),
        (changed("/answers/n/noul", json!("NaN")), "answer to \"n\": \"noul\" is \"NaN\", not a number"),
        (changed("/answers/n/noul", json!(1.5)), "answer to \"n\" has the probability 1.5; it must be from 0 to 1"),
        (changed("/answers/n/noul", json!(-0.1)), "answer to \"n\" has the probability -0.1; it must be from 0 to 1"),
        (changed("/answers/c/probabilities", json!(1)), "answer to \"c\" has no object \"probabilities\""),
        (changed("/answers/c/probabilities", json!({"red": 1.0})), "answer to \"c\" lacks \"blue\""),
        (
            changed("/answers/c/probabilities", json!({"red": 1.0, "blue": 0.0, "pink": 0.0})),
            "answer to \"c\" has option \"pink\", which was not asked",
        ),
        (
            changed("/answers/c/probabilities", json!({"red": 0.5, "blue": 0.25})),
            "answer to \"c\" has probabilities that sum to 0.75, not to 1",
        ),
    ] {
        let error = read_answers(body.as_bytes(), &case().questions).unwrap_err();
        assert_eq!(error.message(), expected);
        assert_eq!(error.kind(), AnswerErrorKind::Unreadable);
    }
    let mut more = response();
    more["answers"]["x"] = json!({"type": "noul", "noul": 0.5});
    let error = read_answers(more.to_string().as_bytes(), &case().questions).unwrap_err();
    assert_eq!(error.message(), "response answers \"x\", which was not asked");
}
