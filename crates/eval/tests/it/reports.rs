//! Tables and JSON: whole, so that a change of a column or a field is seen.

use clef_eval::{BenchReport, BenchRow, Detail, Drift, Evaluation, MeasureOptions, Outcome, Side};
use serde_json::{Value, json};

use crate::support::{Record, outcomes};

fn with_latencies(lines: &[String]) -> Vec<Outcome> {
    let mut outcomes = outcomes(lines);
    for (index, outcome) in outcomes.iter_mut().enumerate() {
        if let Ok(reply) = &mut outcome.reply {
            reply.latency_ms = 10.25 * (index + 1) as f64;
        }
    }
    outcomes
}

fn evaluation() -> Evaluation {
    let lines = [
        Record::new().noul("angry", json!(true), 0.75).label("group", json!("triage")).line(),
        Record::new().noul("angry", json!(true), 0.25).label("group", json!("triage")).line(),
        Record::new().score("stars", json!(1), &[0.0, 0.5, 0.5]).label("group", json!("rating | \u{202e}x")).line(),
        Record::new().noul("angry", json!(true), 0.25).label("id", json!("r4")).failing("refused"),
        "{}".to_owned(),
    ];
    Evaluation::of("a toy on *five* lines", &with_latencies(&lines), &MeasureOptions::default())
}

#[test]
fn an_evaluation_is_a_table() {
    let expected = "\
a toy on *five* lines

             records  errors  questions  accuracy  macro-F1  exact match  score error  Brier    ECE  p50 ms  p95 ms
all                5       2          3     0.667     0.333        0.667        0.500  0.583  0.333    20.5    30.8

by type
noul               3       1          2     0.500     0.333        0.500            -  0.625  0.250    10.2    20.5
score              1       0          1     1.000         -        1.000        0.500  0.500  0.500    30.8    30.8

by group
rating | \u{fffd}x        1       0          1     1.000         -        1.000        0.500  0.500  0.500    30.8    30.8
triage             2       0          2     0.500     0.333        0.500            -  0.625  0.250    10.2    20.5

errors:
  1 record refused: line 4 (r4): as it was told
  1 record not asked, as the line cannot be used: line 5: the request has no questions
";
    let found = evaluation().to_text(Detail::Groups);
    assert_eq!(found, expected, "found:\n{found}");
    assert!(evaluation().to_text(Detail::Questions).contains("\n\nby question\nangry "));
}

#[test]
fn an_evaluation_is_markdown() {
    let found = evaluation().to_markdown(Detail::Groups);
    let rows: Vec<&str> = found.lines().collect();
    assert_eq!(
        rows[..6],
        [
            "**a toy on \\*five\\* lines**",
            "",
            "|  | records | errors | questions | accuracy | macro-F1 | exact match | score error | Brier | ECE | p50 ms | p95 ms |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            "| all | 5 | 2 | 3 | 0.667 | 0.333 | 0.667 | 0.500 | 0.583 | 0.333 | 20.5 | 30.8 |",
            "| **by type** | | | | | | | | | | | |",
        ]
    );
    let reasons = "\n\n- 1 record refused: line 4 (r4): as it was told\n\
                   - 1 record not asked, as the line cannot be used: line 5: the request has no questions\n";
    assert!(found.ends_with(reasons), "{found}");
    assert!(found.contains("\n| rating \\| \u{fffd}x | 1 |"), "{found}");
}

#[test]
fn an_evaluation_is_json_with_names_that_stay() {
    let found: Value = serde_json::from_str(&evaluation().to_json()).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&found), "subject bins min_certainty overall types groups questions reasons failures");
    let measures = "records errors questions decided accuracy macro_f1 exact_match score_error brier ece \
                    latency_p50_ms latency_p95_ms reliability";
    assert_eq!(keys(&found["overall"]), measures);
    assert_eq!(keys(&found["groups"][1]), format!("name {measures}"));
    assert_eq!(found["groups"][1]["name"], "triage");
    assert_eq!(found["overall"]["reliability"].as_array().unwrap().len(), 15);
    assert_eq!(keys(&found["overall"]["reliability"][0]), "above up_to count confidence accuracy");
    assert_eq!(found["types"][0]["score_error"], Value::Null);
    assert_eq!(
        found["reasons"],
        json!([
            {"kind": "refused", "records": 1, "line": 4, "id": "r4", "message": "as it was told"},
            {"kind": "line", "records": 1, "line": 5, "id": null, "message": "the request has no questions"},
        ])
    );
    assert_eq!(
        found["failures"],
        json!([
            {"line": 4, "id": "r4", "kind": "refused", "message": "as it was told"},
            {"line": 5, "id": null, "kind": "line", "message": "the request has no questions"},
        ])
    );
}

#[test]
fn many_failures_are_not_all_listed() {
    let lines = vec!["{}".to_owned(); 1_012];
    let text = Evaluation::of("x", &outcomes(&lines), &MeasureOptions::default()).to_text(Detail::Groups);
    let reason = "\nerrors:\n  1,012 records not asked, as the line cannot be used: the first, line 1: ";
    assert!(text.contains(reason), "{text}");
    assert!(text.contains("\n\nthe others:\n  line 2: the request has no questions\n"), "{text}");
    assert!(text.ends_with("\n  line 11: the request has no questions\n  and 1,001 more\n"), "{text}");
}

#[test]
fn of_several_faults_each_is_shown() {
    let good = || Record::new().noul("q", json!(true), 0.5);
    let gold = || Record::new().noul("q", json!("maybe"), 0.5).label("id", json!("g")).line();
    let mut lines = vec![good().failing("timed_out"); 3];
    lines.extend([good().failing("refused"), good().line(), gold(), gold(), good().failing("busy")]);
    let evaluation = Evaluation::of("x", &outcomes(&lines), &MeasureOptions::default());
    let counts: Vec<_> = evaluation.reasons.iter().map(|reason| (reason.kind, reason.records, reason.line)).collect();
    assert_eq!(counts, [("timed_out", 3, 1), ("refused", 1, 4), ("line", 2, 6), ("busy", 1, 8)]);
    let expected = "
errors:
  3 records not answered in time: the first, line 1: as it was told
  1 record refused: line 4: as it was told
  2 records not asked, as the line cannot be used: the first, line 6 (g): gold of question \"q\" is \"maybe\"; it is \
answered by true, false, or the probability of true
  1 record not answered, as the server stayed busy: line 8: as it was told

the others:
";
    let text = evaluation.to_text(Detail::Groups);
    assert!(text.contains(expected), "{text}");
    // Words that a line has for itself are in no other line's way.
    let markdown = evaluation.to_markdown(Detail::Groups);
    assert_eq!(markdown.lines().filter(|line| line.starts_with("- ")).count(), 4, "{markdown}");
}

#[test]
fn a_drift_says_which_side_did_not_answer() {
    let good = || Record::new().noul("q", json!(true), 0.5);
    let line = |fails: &str| if fails.is_empty() { good().line() } else { good().failing(fails) };
    let reference = outcomes(&["", "", "refused", "refused", "busy", ""].map(line));
    let mut candidate = outcomes(&["", "refused", "refused", "busy", "busy", "refused"].map(line));
    candidate.iter_mut().zip(&reference).for_each(|(right, left)| right.digest = left.digest);
    let side = |subject, outcomes| Side { subject, outcomes };
    let drift = Drift::between(side("a", &reference), side("b|c", &candidate), 10).unwrap();
    assert_eq!((drift.records, drift.unanswered), (1, 5));
    let lines = [
        "candidate: 2 records refused: the first, line 2: as it was told",
        "both: 1 record refused: line 3: as it was told",
        "reference: 1 record refused: line 4: as it was told",
        "both: 1 record not answered, as the server stayed busy: line 5: as it was told",
    ];
    let text = drift.to_text();
    let expected = format!("\n\nwithout both answers:\n  {}\n", lines.join("\n  "));
    assert!(text.starts_with("b|c\nagainst a: 1 record, 5 more without both answers\n\n"), "{text}");
    assert!(text.ends_with(&expected), "{text}");
    let markdown = drift.to_markdown();
    assert!(markdown.starts_with("**b\\|c against a: 1 record, 5 more without both answers**\n\n| "), "{markdown}");
    assert!(markdown.ends_with(&format!("\n\n- {}\n", lines.join("\n- "))), "{markdown}");
    let json: Value = serde_json::from_str(&drift.to_json()).unwrap();
    assert_eq!(
        json["reasons"][1],
        json!({"side": "both", "kind": "refused", "records": 1, "line": 3, "id": null, "message": "as it was told"})
    );
}

#[test]
fn a_drift_is_a_table_and_json() {
    let line = |truth: f64, id: &str| Record::new().noul("angry", json!(true), truth).label("id", json!(id)).line();
    let reference = with_latencies(&[line(0.625, "r1"), line(0.5, "r2"), line(0.5, "r3"), "{}".to_owned()]);
    let mut candidate = with_latencies(&[line(0.375, "r1"), line(0.53125, "r2"), line(0.5, "r3"), "{}".to_owned()]);
    candidate.iter_mut().zip(&reference).for_each(|(right, left)| right.digest = left.digest);
    let side = |subject, outcomes| Side { subject, outcomes };
    let drift = Drift::between(side("a-f32.gguf", &reference), side("a-Q4_K_M.gguf", &candidate), 10).unwrap();
    let expected = "\
a-Q4_K_M.gguf
against a-f32.gguf: 3 records, 1 more without both answers

      questions  options  mean |dp|  p50 |dp|  p99 |dp|  max |dp|  flips  flip rate
all           3        3    9.38e-2   3.12e-2   2.50e-1   2.50e-1      1     0.3333
noul          3        3    9.38e-2   3.12e-2   2.50e-1   2.50e-1      1     0.3333

without both answers:
  both: 1 record not asked, as the line cannot be used: line 4: the request has no questions

questions that moved most
record  line  question  option  reference  candidate    |dp|           flip
r1         1     angry    true     0.6250     0.3750  0.2500  true -> false
r2         2     angry    true     0.5000     0.5312  0.0312
";
    let found = drift.to_text();
    assert_eq!(found, expected, "found:\n{found}");
    assert!(drift.to_markdown().contains("| mean \\|dp\\| |"));
    let json: Value = serde_json::from_str(&drift.to_json()).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&json), "reference candidate records unanswered reasons overall types worst");
    assert_eq!(keys(&json["types"][0]), "name questions options mean p50 p99 max flips flip_rate");
    assert_eq!(
        keys(&json["worst"][0]),
        "line id question option reference candidate delta reference_pick candidate_pick"
    );
}

#[test]
fn a_bench_is_a_table_and_json() {
    let rows = vec![BenchRow::new(371, 364, 1_820.0, 95.5, 300), BenchRow::new(15_000, 15_000, 55_700.0, 60_000.0, 0)];
    let report = BenchReport { subject: "clef-nano".to_owned(), rows };
    let expected = "\
clef-nano

tokens  cold ms  tokens/s  asked again ms  of it reused
371      1820.0     200.0            95.5           300
15,000  55700.0     269.3         60000.0             0
";
    assert_eq!(report.to_text(), expected);
    assert!(report.to_markdown().starts_with(
        "**clef-nano**\n\n| tokens | cold ms | tokens/s | asked again ms | of it reused |\n|---|---:|---:|---:|---:|\n"
    ));
    let json: Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(
        json["rows"][0],
        json!({
            "tokens": 371,
            "cold_ms": 1820.0,
            "cached_ms": 95.5,
            "reused_tokens": 300,
            "tokens_per_second": 200.0,
        })
    );
    assert_eq!(BenchRow::new(1, 1, 0.0, 0.0, 0).tokens_per_second, None);
}
