//! Files of requests: answered in bulk, measured against right answers, compared between two models.

use std::io::Write as _;
use std::path::Path;

use clef_testkit::{Tiny, built_in_model, project_dir, tiny};
use serde_json::{Value, json};

use crate::command::clef;
use crate::serving::serving;

fn request(state: &str) -> Value {
    json!({"state": state, "questions": {"refund": {"type": "noul"}}})
}

fn write_lines(path: &Path, lines: &[String]) {
    let mut file = std::fs::File::create(path).unwrap();
    for line in lines {
        writeln!(file, "{line}").unwrap();
    }
}

#[test]
fn each_line_of_a_file_gets_its_answer_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.jsonl");
    let states = ["late", "charged twice", "late", "where is my parcel?", "thanks"];
    let lines: Vec<String> = states.iter().map(|state| request(state).to_string()).collect();
    write_lines(&path, &lines);
    for jobs in ["1", "3", "100"] {
        let run = clef(&["decide", "-t", "1", "-j", jobs, path.to_str().unwrap()], "");
        let replies: Vec<Value> = run.succeeds().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(replies.len(), states.len(), "{jobs}");
        for (line, reply) in lines.iter().zip(&replies) {
            let alone: Value = serde_json::from_str(clef(&["decide", "-t", "1", "-"], line).succeeds()).unwrap();
            assert_eq!(&alone, reply, "{jobs}");
        }
    }
    let piped = clef(&["decide", "-t", "1", "--jsonl", "-"], &(lines.join("\n") + "\n\n"));
    assert_eq!(piped.succeeds().lines().count(), states.len());
}

#[test]
fn a_line_that_cannot_be_answered_stops_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.jsonl");
    let long = request(&"word ".repeat(40_000)).to_string();
    write_lines(&path, &[request("one").to_string(), "{".to_owned(), long, request("four").to_string()]);
    let run = clef(&["decide", "-t", "1", path.to_str().unwrap()], "");
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.ends_with("error: 2 of 4 requests have no answer\n"), "{}", run.stderr);
    let replies: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replies.len(), 4);
    assert!(replies[0]["answers"].is_object() && replies[3]["answers"].is_object());
    for (index, words) in [(1, "not valid JSON"), (2, "the limit is 16,384")] {
        assert_eq!(replies[index]["error"]["line"], index + 1);
        assert!(replies[index]["error"]["message"].as_str().unwrap().contains(words), "{}", replies[index]);
    }
    let endless = clef(&["decide", "--jsonl", "/dev/zero"], "");
    assert!(endless.code == Some(1) && endless.stderr.contains("a line does not end"), "{}", endless.stderr);
    let missing = clef(&["decide", "no-such.jsonl"], "");
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("cannot open no-such.jsonl"), "{}", missing.stderr);
    let table = clef(&["decide", "--table", path.to_str().unwrap()], "");
    assert_eq!(table.code, Some(2), "{}", table.stderr);
}

#[test]
fn the_example_is_measured_in_process_and_over_http_alike() {
    let folder = tempfile::tempdir().unwrap();
    let data = project_dir().join("examples/eval-set.jsonl");
    let data = data.to_str().unwrap();
    let charts = folder.path().join("charts");
    let results = folder.path().join("results.jsonl");
    let here = clef(
        &[
            "eval",
            data,
            "--json",
            "-t",
            "1",
            "--charts",
            charts.to_str().unwrap(),
            "--results",
            results.to_str().unwrap(),
        ],
        "",
    );
    let measured: Value = serde_json::from_str(here.succeeds()).unwrap();
    assert_eq!(measured["overall"]["records"], 26, "{measured}");
    assert_eq!(measured["overall"]["errors"], 0);
    for chart in ["reliability", "latency"] {
        let svg = std::fs::read_to_string(charts.join(format!("{chart}.svg"))).unwrap();
        assert!(svg.contains("<svg"), "{chart}");
        assert!(std::fs::read(charts.join(format!("{chart}.png"))).unwrap().starts_with(b"\x89PNG"), "{chart}");
    }
    // Everything is in the file of results, so nothing is asked again.
    let again = clef(&["eval", data, "--json", "-t", "1", "--results", results.to_str().unwrap()], "");
    assert!(again.stderr.contains("26 answers are from the file of results"), "{}", again.stderr);
    assert_eq!(serde_json::from_str::<Value>(again.succeeds()).unwrap(), measured);

    // Answers of a model that was opened in another way are others.
    let mixed = clef(&["eval", data, "--json", "-t", "1", "--neutral-ids", "--results", results.to_str().unwrap()], "");
    assert_eq!(mixed.code, Some(1), "{}", mixed.stderr);
    let server = serving(&[]);
    let over_http = clef(&["eval", data, "--json", "--url", &server.url()], "");
    let over_http: Value = serde_json::from_str(over_http.succeeds()).unwrap();
    for figure in ["accuracy", "macro_f1", "exact_match", "brier", "ece"] {
        assert_eq!(over_http["overall"][figure], measured["overall"][figure], "{figure}");
    }
    let nobody = clef(&["eval", data, "--url", "http://127.0.0.1:9"], "");
    assert_eq!(nobody.code, Some(1), "{}", nobody.stdout);
    let no_data = clef(&["eval", "no-such.jsonl"], "");
    assert_eq!(no_data.code, Some(1));
}

/// Of a report, every row as its name and its figures; the last two, which are times, are left out.
fn figures(report: &str) -> Vec<(String, Vec<Option<f64>>)> {
    let rows = report.lines().filter(|line| line.split_whitespace().count() == 12);
    rows.map(|row| {
        let cells: Vec<&str> = row.split_whitespace().collect();
        (cells[0].to_owned(), cells[1..10].iter().map(|cell| cell.parse().ok()).collect())
    })
    .collect()
}

#[test]
fn the_documents_show_what_the_example_comes_to() {
    let run = clef(&["eval", project_dir().join("examples/eval-set.jsonl").to_str().unwrap(), "-t", "1"], "");
    let measured = figures(run.succeeds());
    assert_eq!(measured.len(), 10, "{}", run.stdout);
    for document in ["README.md", "docs/measuring.md"] {
        let text = std::fs::read_to_string(project_dir().join(document)).unwrap();
        let shown = text.split("$ clef eval examples/eval-set.jsonl\n").nth(1).unwrap().split("```").next().unwrap();
        let shown = figures(shown);
        assert_eq!(shown.len(), measured.len(), "{document}");
        for ((name, shown), (of, measured)) in shown.iter().zip(&measured) {
            assert_eq!(name, of, "{document}");
            for (shown, measured) in shown.iter().zip(measured) {
                // Processors round in other places, which moves quantized answers a little.
                let is_near = shown.zip(*measured).is_none_or(|(shown, measured)| (shown - measured).abs() < 0.02);
                assert!(shown.is_some() == measured.is_some() && is_near, "{document}: {name}: {shown:?} {measured:?}");
            }
        }
    }
}

#[test]
fn two_files_are_compared_answer_by_answer() {
    let data = project_dir().join("examples/eval-set.jsonl");
    let (data, toy) = (data.to_str().unwrap(), built_in_model());
    let same = clef(&["drift", toy.to_str().unwrap(), toy.to_str().unwrap(), data, "--json", "-t", "1"], "");
    let same: Value = serde_json::from_str(same.succeeds()).unwrap();
    assert_eq!((&same["overall"]["max"], &same["overall"]["flips"]), (&json!(0.0), &json!(0)), "{same}");
    let (wide, narrow) = (tiny(Tiny::BF16), tiny(Tiny::Q2_K));
    let other = clef(&["drift", wide.to_str().unwrap(), narrow.to_str().unwrap(), data, "--json", "-t", "1"], "");
    let other: Value = serde_json::from_str(other.succeeds()).unwrap();
    assert!(other["overall"]["max"].as_f64().unwrap() > 1e-4, "{other}");
    let named = clef(&["drift", "-m", "x.gguf", wide.to_str().unwrap(), narrow.to_str().unwrap(), data], "");
    assert_eq!(named.code, Some(2), "{}", named.stderr);
}

#[test]
fn reading_is_timed_by_size() {
    let run = clef(&["bench", "--json", "--sizes", "300,800", "--rounds", "1", "-t", "1"], "");
    let report: Value = serde_json::from_str(run.succeeds()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, size) in rows.iter().zip([300.0, 800.0]) {
        let tokens = row["tokens"].as_f64().unwrap();
        assert!((tokens - size).abs() < 0.2 * size, "{report}");
        assert!(row["cold_ms"].as_f64().unwrap() > 0.0 && row["cached_ms"].as_f64().unwrap() > 0.0);
    }
    // The state is most of the prompt, and was read once.
    let [tokens, reused] = ["tokens", "reused_tokens"].map(|field| rows[1][field].as_f64().unwrap());
    assert!(reused > 0.75 * tokens && reused < tokens, "{report}");
    let too_long = clef(&["bench", "--sizes", "300,100000"], "");
    assert_eq!((too_long.code, too_long.stdout.as_str()), (Some(2), ""));
    assert!(too_long.stderr.contains("to 16384 tokens can be measured; -c moves the limit"), "{too_long:?}");
    assert_eq!(clef(&["bench", "--rounds", "0"], "").code, Some(2));
}
