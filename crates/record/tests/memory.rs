//! Memory beside the body, measured: whatever a body holds, reading it must stay cheap.
//!
//! A test binary of its own, because the counting allocator is global; its one test runs alone.

use clef_record::{Record, RecordError};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MEBIBYTE: usize = 1 << 20;

/// A request whose state is `unit` over and over, between `start` and `end`.
fn body_of(start: &str, unit: &str, separator: &str, end: &str, bytes: usize) -> Vec<u8> {
    let count = (bytes / (unit.len() + separator.len())).max(1);
    let units = vec![unit; count].join(separator);
    format!(r#"{{"questions":{{"q":{{"type":"noul"}}}},"state":{start}{units}{end}}}"#).into_bytes()
}

/// Peak memory of reading the body, the body itself not counted.
fn peak_beside(body: &[u8]) -> (usize, Result<Record, RecordError>) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let record = Record::parse(body);
    (ALLOCATOR.peak_usage().saturating_sub(before), record)
}

#[test]
fn memory_beside_a_body_stays_under_three_times_its_size() {
    let large = 20 * MEBIBYTE;
    let small = 2 * MEBIBYTE;
    let array = |unit, bytes| body_of("[", unit, ",", "]", bytes);
    let object = |unit, bytes| body_of("{", unit, ",", "}", bytes);
    let string = |unit, bytes| body_of("[\"", unit, "", "\"]", bytes);
    let backwards: Vec<_> = (0..200_000).rev().map(|index| format!("\"{index:06}\":0")).collect();
    let bodies = [
        ("zeros", array("0", large)),
        ("one key over and over", object(r#""a":0"#, large)),
        ("short escapes", string(r"\n", small)),
        ("long escapes", string(r"\u0041\u0001", large)),
        ("a string of escapes", body_of("\"", r"\n", "", "\"", small)),
        ("the empty key over and over", object(r#""":0"#, small)),
        ("keys backwards", object(&backwards.join(","), small)),
        ("empty arrays", array("[]", small)),
        ("small objects", array(r#"{"a":0}"#, small)),
        ("unsorted objects", array(r#"{"b":0,"a":0}"#, small)),
        ("spaced", array("  0  ", small)),
        ("plain text", string("late again ", small)),
    ];
    for (name, body) in &bodies {
        let (peak, record) = peak_beside(body);
        assert!(record.is_ok(), "{name}: {:?}", record.err());
        assert!(peak < 3 * body.len(), "{name}: {peak} bytes beside a body of {}", body.len());
    }

    let allowance = 40 * MEBIBYTE;
    let questions = |count: usize, question: &dyn Fn(usize) -> String| {
        let members: Vec<_> = (0..count).map(|index| format!("\"{index}\":{}", question(index))).collect();
        format!(r#"{{"state":0,"questions":{{{}}}}}"#, members.join(",")).into_bytes()
    };
    let options: Vec<_> = (0..255).map(|index| format!("\"{index}\":1")).collect();
    let choice = format!(r#"{{"type":"choice","criteria":{{{}}}}}"#, options.join(","));
    let bodies = [
        ("questions", questions(32_768, &|_| r#"{"type":"noul"}"#.to_owned())),
        ("options", questions(514, &|_| choice.clone())),
        ("levels", questions(13_107, &|_| r#"{"type":"score","criteria":[0,0,0,0,0,0,0,0,0,0]}"#.to_owned())),
    ];
    for (name, body) in &bodies {
        let (peak, record) = peak_beside(body);
        assert!(record.is_ok(), "{name}: {:?}", record.err());
        assert!(peak < 3 * body.len() + allowance, "{name}: {peak} bytes");
    }

    // Pictures: their text once, in the record, and nothing for the body around it.
    let with = |fields: &str| format!(r#"{{"questions":{{"q":{{"type":"noul"}}}},{fields}}}"#).into_bytes();
    let picture = "QUJD/+0=".repeat(60 * MEBIBYTE / 8);
    let escaped = "QUJD\\/+0=".repeat(7 * MEBIBYTE);
    let part = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,PICTURE"}}"#;
    for (name, fields, data) in [
        ("an image", r#""state":"x","images":["data:image/png;base64,PICTURE"]"#, &picture),
        ("an escaped image", r#""state":"x","images":["data:image\/png;base64,PICTURE"]"#, &escaped),
        ("a part as an image", r#""state":"x","images":[PART]"#, &picture),
        ("a part", r#""state":[{"type":"text","text":"x"},PART]"#, &picture),
        ("a part of a message", r#""state":{"messages":[{"content":[PART,"x"]}]}"#, &picture),
        ("a file", r#""state":[{"type":"file","mediaType":"image/png","data":"PICTURE"}]"#, &picture),
        ("an asset", r#""assets":{"<a>":{"data_base64":"PICTURE"}},"state":{"b":"<a>","a":0}"#, &picture),
        ("a video", r#""state":"x","videos":[{"frames":["data:image/png;base64,PICTURE"]}]"#, &picture),
    ] {
        let body = with(&fields.replace("PART", part).replace("PICTURE", data));
        let (peak, record) = peak_beside(&body);
        assert!(record.is_ok(), "{name}: {:?}", record.err());
        assert!(peak < body.len() + MEBIBYTE, "{name}: {peak} bytes beside a body of {}", body.len());
    }
    drop((picture, escaped));

    // Placeholders: the texts they are in, and what these may grow by.
    let allowance = 8 * MEBIBYTE;
    let named = |state: &str| {
        with(&format!(r#""assets":{{"a":{{"data_base64":"A"}},"\u0007aaaaaaaaa":{{"data_base64":"A"}}}},{state}"#))
    };
    let bodies = [
        ("none of them", named(&format!(r#""state":["{}"]"#, "text ".repeat(large / 5)))),
        ("as many as may be", named(&format!(r#""state":["{}"]"#, "a b ".repeat(600_000)))),
        ("a string of them", named(&format!(r#""state":"{}""#, r"\u0007aaaaaaaaa".repeat(large / 15)))),
        ("beginnings of them", named(&format!(r#""state":["{}"]"#, r"\u0007".repeat(large / 6)))),
        ("strings of them", named(&format!(r#""state":{{"b":["{}"],"a":"a"}}"#, vec!["a"; 300_000].join("\",\"")))),
    ];
    for (name, body) in &bodies {
        let (peak, record) = peak_beside(body);
        assert!(record.is_ok(), "{name}: {:?}", record.err());
        assert!(peak < 3 * body.len() + allowance, "{name}: {peak} bytes beside a body of {}", body.len());
    }
}
