//! Our JSON against CPython's, byte for byte.

use std::path::Path;

use clef_record::json::{dump_canonical, render_canonical};
use serde_json::Value;

const FIXTURE: &str = "../../tests/fixtures/json-cases.jsonl";

#[test]
fn every_case_prints_as_cpython_prints_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIXTURE);
    let content = std::fs::read_to_string(&path).expect("the fixture is in the repository");
    let mut lines = content.lines();
    let header: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(header["generator"], "scripts/make_json_cases.py");

    let mut printed = 0;
    let mut refused = 0;
    for line in lines {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = case["text"].as_str().unwrap();
        match case["dumps"].as_str() {
            Some(dumps) => {
                assert_eq!(dump_canonical(text).as_deref(), Ok(dumps), "{line}");
                let rendered = match serde_json::from_str(dumps) {
                    Ok(Value::String(value)) => value,
                    _ => dumps.to_owned(),
                };
                assert_eq!(render_canonical(text).as_deref(), Ok(&*rendered), "{line}");
                printed += 1;
            }
            None => {
                assert_eq!(case["refused"], true, "{line}");
                assert!(dump_canonical(text).is_err(), "{line}");
                refused += 1;
            }
        }
    }
    assert!(printed >= 2_500 && refused >= 300, "{printed} printed, {refused} refused");
}

#[test]
fn what_is_printed_prints_itself() {
    let text = r#"{"b":[1e5,"\u0001é"],"a":{"y":-0.0,"x":null}}"#;
    let once = dump_canonical(text).unwrap();
    assert_eq!(dump_canonical(&once).unwrap(), once);
}
