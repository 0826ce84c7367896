//! Bodies made to be expensive.

use std::time::{Duration, Instant};

use clef_record::json::{MAX_DEPTH, dump_canonical};
use clef_record::{Record, RecordErrorKind};

fn nested(opening: &str, closing: &str, depth: usize) -> String {
    format!("{}0{}", opening.repeat(depth), closing.repeat(depth))
}

#[test]
fn nesting_is_refused_past_the_limit_at_any_depth_and_place() {
    let pairs = [("[", "]", 1), (r#"{"a":"#, "}", 1), (r#"[{"a":"#, "}]", 2)];
    for (opening, closing, levels) in pairs {
        for depth in [40, 500, 5_000, 1_000_000] {
            let value = nested(opening, closing, depth / levels);
            let bodies = [
                format!(r#"{{"state":{value},"questions":{{"q":{{"type":"noul"}}}}}}"#),
                format!(r#"{{"state":"x","questions":{{"q":{{"type":"noul","instructions":{value}}}}}}}"#),
                format!(r#"{{"state":"x","questions":{{"q":{{"type":"choice","criteria":{{"a":{value}}}}}}}}}"#),
                format!(r#"{{"ignored":{value},"state":"x","questions":{{"q":{{"type":"noul"}}}}}}"#),
                opening.repeat(depth / levels),
            ];
            let unbalanced = bodies.len() - 1;
            for (index, body) in bodies.iter().enumerate() {
                let error = Record::parse(body.as_bytes()).err();
                let kind = error.as_ref().map(|error| error.kind());
                if depth > MAX_DEPTH {
                    assert!(matches!(kind, Some(RecordErrorKind::Nesting(_))), "{error:?}");
                } else if index == unbalanced {
                    assert!(matches!(kind, Some(RecordErrorKind::Json(_))), "{error:?}");
                } else {
                    assert_eq!(error, None);
                }
            }
        }
    }
}

#[test]
fn the_deepest_value_is_taken_and_one_level_more_is_not() {
    assert!(dump_canonical(&nested("[", "]", MAX_DEPTH)).is_ok());
    assert!(dump_canonical(&nested("[", "]", MAX_DEPTH + 1)).is_err());
}

/// Twice the text may cost twice the time, with room for a busy machine; not four times.
#[track_caller]
fn assert_linear(text: impl Fn(usize) -> String) {
    let time = |size| {
        let text = text(size);
        let runs = (0..3).map(|_| {
            let start = Instant::now();
            dump_canonical(&text).unwrap();
            start.elapsed()
        });
        runs.min().unwrap()
    };
    let small = time(20_000).max(Duration::from_millis(1));
    let large = time(160_000);
    assert!(large < small * 32, "{small:?} for one part, {large:?} for eight");
}

#[test]
fn objects_in_objects_with_keys_out_of_order_cost_linear_time() {
    assert_linear(|size| {
        let core = format!("\"{}\"", "x".repeat(size));
        let shells = MAX_DEPTH - 1;
        format!("{}{core}{}", r#"{"b":0,"a":"#.repeat(shells), "}".repeat(shells))
    });
}

#[test]
fn many_keys_out_of_order_cost_little_more_than_linear_time() {
    assert_linear(|size| {
        let members: Vec<_> = (0..size).map(|index| format!("\"k{:08}\":0", size - index)).collect();
        format!("{{{}}}", members.join(","))
    });
    assert_linear(|size| format!("{{{}}}", vec!["\"same\":0"; size].join(",")));
}

#[test]
fn five_megabytes_of_half_a_marker_are_plain_text() {
    let body = format!(r#"{{"state":"{}","questions":{{"q":{{"type":"noul"}}}}}}"#, "<|".repeat(2_500_000));
    assert_eq!(Record::parse(body.as_bytes()).unwrap().state.len(), 5_000_000);
}

#[test]
fn a_body_that_would_print_much_longer_is_refused() {
    let body = |count: usize| {
        format!(r#"{{"state":[{}],"questions":{{"q":{{"type":"noul"}}}}}}"#, vec!["1e15"; count].join(","))
    };
    let error = Record::parse(body(1_000_000).as_bytes()).unwrap_err();
    assert_eq!(error.kind(), RecordErrorKind::TooLarge);
    assert!(Record::parse(body(100_000).as_bytes()).is_ok());
}
