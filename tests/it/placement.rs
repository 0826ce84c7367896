//! Flags about where a model is put, on a machine that has but a CPU.

use clef_testkit::built_in_model;

use crate::command::decide;
use crate::serving::clef_server;

const REQUEST: &str = r#"{"state": "I was charged twice.", "questions": {"refund": {"type": "noul"}}}"#;

#[test]
fn devices_that_there_are_not_are_a_line_of_error() {
    let model = built_in_model();
    let run = clef_server(&["-dev", "CUDA77"]);
    let line = run.fails_with(1);
    assert!(line.starts_with("error: -dev \"CUDA77\": no device \"CUDA77\""), "{line}");
    let run = clef_server(&[
        "-m",
        model.to_str().unwrap(),
        "-dev",
        "none",
        "-sm",
        "tensor",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--log-disable",
    ]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert_eq!(run.stderr, "error: split mode tensor needs a GPU, and none is used\n");
}

#[test]
fn flags_about_the_place_change_no_answer_on_a_cpu() {
    let model = built_in_model();
    let plain = decide(&model, &["-ngl", "0"], REQUEST);
    let flags = [
        "-dev",
        "none",
        "-sm",
        "row",
        "-ts",
        "3,1",
        "-mg",
        "1",
        "-lm",
        "mlock",
        "--numa",
        "distribute",
        "--fit",
        "off",
    ];
    assert_eq!(decide(&model, &flags, REQUEST).succeeds(), plain.succeeds());
}
