//! `clef decide` as people use it.

use clef_testkit::{Tiny, built_in_model, golden, project_dir, tiny};
use serde_json::{Value, json};

use crate::command::{CLEF, clef, decide, in_clean_environment, run_with};

const SMALL: &str = r#"{"state": "I was charged twice.", "questions": {"refund": {"type": "noul"}}}"#;

#[test]
fn the_readmes_first_example_prints_what_the_readme_says() {
    let readme = std::fs::read_to_string(project_dir().join("README.md")).unwrap();
    let shown = readme.split("<!-- example output -->").nth(1).unwrap();
    let shown = shown.split("```").nth(1).unwrap().strip_prefix("text\n").unwrap();
    let example = project_dir().join("examples/customer-message.json");
    let run = clef(&["decide", "-t", "1", "--table", example.to_str().unwrap()], "");
    assert_eq!(run.succeeds().trim_end(), shown.trim_end());
    assert!(run.stdout.contains("billing    0.9"), "{run:?}");
    assert!(run.stderr.contains("a toy") && run.stderr.lines().count() == 1, "{run:?}");
}

#[test]
fn the_readmes_request_is_the_example_file() {
    let readme = std::fs::read_to_string(project_dir().join("README.md")).unwrap();
    let example = std::fs::read_to_string(project_dir().join("examples/customer-message.json")).unwrap();
    assert!(readme.contains(example.trim()), "README.md shows another request than examples/customer-message.json");
}

#[test]
fn a_request_file_and_standard_input_give_the_same_reply() {
    let example = project_dir().join("examples/customer-message.json");
    let text = std::fs::read_to_string(&example).unwrap();
    let model = built_in_model();
    let by_file = clef(&["decide", "-t", "1", "-m", model.to_str().unwrap(), example.to_str().unwrap()], "");
    assert_eq!(by_file.succeeds(), decide(&model, &[], &text).succeeds());
    assert_eq!(by_file.stderr, "");
}

#[test]
fn the_reply_has_the_shape_of_the_api_and_nothing_else() {
    let run = decide(&built_in_model(), &["--alias", "nano"], SMALL);
    let reply: Value = serde_json::from_str(run.succeeds()).unwrap();
    assert_eq!(reply.as_object().unwrap().keys().collect::<Vec<_>>(), ["model", "answers", "usage"]);
    assert_eq!(reply["model"], "nano");
    assert_eq!(reply["usage"]["output_tokens"], json!(0));
    assert!(reply["usage"]["input_tokens"].as_u64().unwrap() > 100);
    assert!((0.0..=1.0).contains(&reply["answers"]["refund"]["noul"].as_f64().unwrap()));
}

#[test]
fn pretty_prints_the_same_values_on_several_lines() {
    let model = built_in_model();
    let (plain, pretty) = (decide(&model, &[], SMALL), decide(&model, &["--pretty"], SMALL));
    assert!(plain.succeeds().lines().count() == 1 && pretty.succeeds().lines().count() > 5);
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(parse(&plain.stdout), parse(&pretty.stdout));
}

#[test]
fn golden_records_of_several_kinds_are_answered_on_the_command_line_as_by_the_reference() {
    // Other tests compare all records below the command line; this one that nothing is lost on the way.
    let model = tiny(Tiny::F32);
    for name in ["doc-example", "choice-unicode-ids", "number-overflow", "score-10-levels"] {
        let golden = golden().into_iter().find(|record| record.name == name).unwrap();
        let run = decide(&model, &["-fa", "off"], &golden.body);
        let (ours, theirs): (Value, Value) =
            (serde_json::from_str(run.succeeds()).unwrap(), golden.response.clone().unwrap());
        for (id, theirs) in theirs["answers"].as_object().unwrap() {
            let ours = &ours["answers"][id];
            assert_eq!(ours["type"], theirs["type"], "{name} {id}");
            assert_eq!(ours["choice"], theirs["choice"], "{name} {id}");
            assert_eq!(ours["legend"], theirs["legend"], "{name} {id}");
            for key in ["noul", "score"] {
                let (Some(ours), Some(theirs)) = (ours[key].as_f64(), theirs[key].as_f64()) else {
                    assert_eq!(ours[key].is_null(), theirs[key].is_null(), "{name} {id}");
                    continue;
                };
                // The reference rounds to four digits.
                assert!((ours - theirs).abs() <= 2e-4, "{name} {id} {key}: {ours} {theirs}");
            }
        }
    }
}

#[test]
fn the_state_is_cut_only_when_asked_and_the_cut_is_said() {
    let long = "an order was charged twice and nobody replied. ".repeat(400);
    let request = |extra: &str| {
        format!(r#"{{"state": "{long}", "questions": {{"refund": {{"type": "noul"}}}}, "max_length": 700{extra}}}"#)
    };
    let model = built_in_model();
    let refused = decide(&model, &[], &request(""));
    let line = refused.fails_with(3);
    assert!(line.contains("700") && line.contains("tokens"), "{line}");
    let cut = decide(&model, &[], &request(r#", "truncate": "end""#));
    let reply: Value = serde_json::from_str(cut.succeeds()).unwrap();
    assert_eq!(reply["usage"]["input_tokens"], 700);
    assert!(cut.stderr.contains("tokens of the state were cut off"), "{cut:?}");
}

#[test]
fn a_bad_request_ends_with_code_3_and_a_line_that_names_the_field() {
    let cases = [
        ("", "JSON"),
        ("{:", "JSON"),
        (r#"{"questions": {"a": {"type": "noul"}}}"#, "state"),
        (r#"{"state": "x", "questions": {}}"#, "questions"),
        (r#"{"state": "x", "questions": {"a": {"type": "Noul"}}}"#, "type"),
        (r#"{"state": "x", "questions": {"a": {"type": "score", "criteria": ["one"]}}}"#, "criteria"),
        (r#"{"state": "x", "questions": {"a": {"type": "noul"}}, "images": ["data:image/png;base64,AAAA"]}"#, "images"),
        (r#"{"state": "x", "questions": {"a": {"type": "choice", "criteria": {"b": "", "b": ""}}}}"#, "criteria"),
    ];
    for (request, named) in cases {
        let run = decide(&built_in_model(), &[], request);
        let line = run.fails_with(3);
        assert!(line.contains(named), "{request}: {line}");
    }
}

#[test]
fn a_bad_request_is_reported_before_a_model_is_loaded() {
    let run = clef(&["decide", "-m", "/nonexistent.gguf", "-"], "{:");
    run.fails_with(3);
}

#[test]
fn wrong_command_lines_end_with_code_2() {
    for arguments in [
        &["decide", "--no-such-flag"][..],
        &["decide", "-c", "minus one", "-"],
        &["decide", "-ub", "0", "-"],
        &["decide", "-ctk", "q3", "-"],
        &["decide", "-fa", "perhaps", "-"],
        &["decide", "--pretty", "--table", "-"],
        &["inspect"],
        &[],
    ] {
        let run = clef(arguments, SMALL);
        assert_eq!(run.code, Some(2), "{arguments:?}: {run:?}");
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{arguments:?}: {run:?}");
    }
}

#[test]
fn missing_files_end_with_code_1_and_their_name() {
    let run = clef(&["decide", "/nonexistent/request.json"], "");
    assert!(run.fails_with(1).contains("/nonexistent/request.json"));
    let run = clef(&["decide", "-m", "/nonexistent/model.gguf", "-"], SMALL);
    assert!(run.fails_with(1).contains("/nonexistent/model.gguf"));
    let folder = project_dir();
    let run = decide(&folder, &[], SMALL);
    assert!(run.fails_with(1).contains("not a file"));
}

#[test]
fn llama_servers_spellings_of_flags_are_understood() {
    let flags = ["-ngl", "99", "--ctx_size", "4096", "-ub", "128", "-b", "256", "-ctk", "f32", "-ctv=f32", "-fa", "on"];
    decide(&built_in_model(), &flags, SMALL).succeeds();
}

#[test]
fn a_context_too_small_for_the_questions_is_refused_with_both_numbers() {
    let run = decide(&built_in_model(), &["-c", "64"], SMALL);
    let line = run.fails_with(3);
    assert!(line.contains("64") && line.contains("tokens"), "{line}");
}

#[test]
fn neutral_ids_keep_an_answer_when_a_question_is_renamed() {
    let ask = |id: &str, flags: &[&str]| {
        let request = format!(
            r#"{{"state": "charged twice", "questions": {{"{id}": {{"type": "noul", "instructions": "Refund?"}}}}}}"#
        );
        let reply: Value = serde_json::from_str(decide(&built_in_model(), flags, &request).succeeds()).unwrap();
        reply["answers"][id]["noul"].as_f64().unwrap()
    };
    assert_eq!(ask("a", &["--neutral-ids"]).to_bits(), ask("some_other_name", &["--neutral-ids"]).to_bits());
    assert_ne!(ask("a", &[]).to_bits(), ask("some_other_name", &[]).to_bits());
}

#[test]
fn repacked_weights_answer_or_are_refused_in_a_line() {
    // On CPUs with AMX llama.cpp's repacked kernels cannot be trusted to run.
    let run = decide(&built_in_model(), &["--repack"], SMALL);
    if run.code != Some(0) {
        assert!(run.fails_with(1).contains("AMX"), "{run:?}");
    }
}

#[test]
fn how_the_cpu_computes_is_chosen_once_and_the_same_at_every_start() {
    let cache = tempfile::tempdir().unwrap();
    let model = built_in_model();
    let chosen = || {
        let mut command = in_clean_environment(CLEF);
        command.env("XDG_CACHE_HOME", cache.path()).env("RUST_LOG", "info");
        let run = run_with(command.args(["decide", "-m", model.to_str().unwrap(), "-"]), SMALL);
        run.succeeds();
        let line = run.stderr.lines().find(|line| line.contains("kernels: ")).unwrap().to_owned();
        let (_, choice) = line.split_once("kernels: ").unwrap();
        (choice.split_once(" (").unwrap().0.to_owned(), line)
    };
    let (first, second) = (chosen(), chosen());
    assert_eq!(first.0, second.0);
    if cache.path().join("clef-server/kernels.json").exists() {
        assert!(second.1.contains("kernels.json"), "{second:?}");
    }
}
