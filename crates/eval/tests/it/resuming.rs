//! Results on disk: what was answered is not asked again, and nobody's file is harmed.

use std::path::{Path, PathBuf};

use clef_eval::{Cancel, Dataset, DatasetOptions, ErrorKind, Outcome, Progress, Results, Run, RunOptions, run};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Echo, Record};

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn results(&self) -> PathBuf {
        self.folder.path().join("results.jsonl")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.results()).unwrap()
    }

    /// Runs lines against the file; the run, and how many were asked.
    fn run(&self, lines: &[String]) -> (Run, usize) {
        let results = Results::open(&self.results(), "echo").unwrap();
        let echo = Echo::default();
        let dataset = Dataset::new(Box::leak(lines.join("\n").into_boxed_str()).as_bytes(), DatasetOptions::default());
        let options = RunOptions { results: Some(&results), ..RunOptions::default() };
        let run = run(dataset, &echo, &options, &|_| {}).unwrap();
        (run, echo.asked())
    }
}

fn line(index: usize) -> Record {
    let truth = 1.0 / (index as f64 + 3.0);
    Record::new()
        .noul("n", json!(true), truth)
        .choice("c", json!("a"), &[("a", truth), ("b", 1.0 - truth)])
        .score("s", json!(1), &[truth, 1.0 - truth])
        .label("id", json!(format!("r{index}")))
}

fn lines(count: usize) -> Vec<String> {
    (0..count).map(|index| line(index).line()).collect()
}

fn open(path: &Path) -> clef_eval::Error {
    Results::open(path, "echo").expect_err("a refusal")
}

#[test]
fn a_finished_run_is_not_asked_again_and_brings_the_same_to_the_bit() {
    let place = Place::new();
    let (first, asked) = place.run(&lines(20));
    assert_eq!((asked, first.resumed), (20, 0));
    let (second, asked) = place.run(&lines(20));
    assert_eq!((asked, second.resumed), (0, 20));
    assert_eq!(first.outcomes, second.outcomes);
    assert_eq!(place.text().lines().count(), 21, "a header and twenty records");
}

#[test]
fn results_have_the_shape_that_is_documented() {
    let place = Place::new();
    let (run, _) = place.run(&[line(0).line(), line(1).failing("refused"), "{}".to_owned()]);
    let text = place.text();
    let rows: Vec<Value> = text.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows[0], json!({"clef_eval_results": 1, "subject": "echo"}));
    let digest = |outcome: &Outcome| outcome.digest.unwrap().to_string();
    let p = 1.0 / 3.0;
    assert_eq!(
        rows[1],
        json!({
            "line": 1,
            "id": "r0",
            "request": digest(&run.outcomes[0]),
            "latency_ms": run.outcomes[0].reply.as_ref().unwrap().latency_ms,
            "answers": {
                "n": {"type": "noul", "noul": p},
                "c": {"type": "choice", "choice": "b", "probabilities": {"a": p, "b": 1.0 - p}},
                "s": {"type": "score", "score": 1.0 - p, "probabilities": {"0": p, "1": 1.0 - p}},
            },
        })
    );
    assert_eq!(
        rows[2],
        json!({
            "line": 2,
            "id": "r1",
            "request": digest(&run.outcomes[1]),
            "error": {"kind": "refused", "message": "as it was told"},
        })
    );
    assert_eq!(rows.len(), 3, "a line that asks nothing is found anew each time");
}

#[test]
fn only_what_is_missing_is_asked() {
    let place = Place::new();
    let mut lines = lines(6);
    lines[2] = line(2).failing("refused");
    assert_eq!(place.run(&lines[..4]).1, 4);
    // The one that failed, and the two that are new; one was labelled anew and one moved, which asks nothing.
    lines.swap(0, 1);
    lines[3] = line(3).label("gold", Value::Null).label("group", json!("g")).line();
    let (run, asked) = place.run(&lines);
    assert_eq!((asked, run.resumed), (3, 3));
    assert_eq!(*run.outcomes[3].questions[0].groups[0], *"g");
    assert_eq!(run.outcomes[0].id.as_deref(), Some("r1"));
}

#[test]
fn the_same_request_twice_is_two_records() {
    let place = Place::new();
    let twice = [line(0).line(), line(0).line()];
    assert_eq!(place.run(&twice[..1]).1, 1);
    assert_eq!(place.run(&twice).1, 1);
    assert_eq!(place.run(&twice).1, 0);
}

#[test]
fn a_line_that_was_cut_off_is_dropped_wherever_it_was_cut() {
    let place = Place::new();
    let short = |truth| Record::new().noul("n", json!(true), truth).line();
    let lines = [short(0.25), short(0.5)];
    place.run(&lines);
    let whole = place.text();
    let header = whole.find('\n').unwrap() + 1;
    for cut in 0..whole.len() {
        std::fs::write(place.results(), &whole[..cut]).unwrap();
        let results = Results::open(&place.results(), "echo").unwrap();
        let kept = whole[..cut].rfind('\n').map_or(0, |end| end + 1);
        assert_eq!(results.dropped_bytes(), (cut - kept) as u64, "cut at {cut}");
        assert_eq!(results.held(), whole[..kept].lines().count().saturating_sub(1));
        drop(results);
        assert_eq!(place.text(), whole[..kept.max(header)], "cut at {cut}");
    }
    let (_, asked) = place.run(&lines);
    assert_eq!(asked, 1);
    assert_eq!(place.text().lines().count(), 3);
}

#[test]
fn a_file_of_something_else_is_refused_and_left_as_it_is() {
    let place = Place::new();
    place.run(&lines(2));
    let results = place.text();
    let header = results.lines().next().unwrap();
    let other = results.replace("\"echo\"", "\"other\"");
    for (text, expected) in [
        ("precious", "is not a file of results"),
        ("precious\n", "is not a file of results"),
        ("{\"state\": 1}\n", "is not a file of results"),
        ("{\"clef_eval_results\":2,\"subject\":\"echo\"}\n", "has results in form 2, this program knows form 1"),
        (other.as_str(), "has answers of \"other\", this run asks \"echo\""),
        (&format!("{header}\nprecious\n"), "has no result on line 2: "),
        (
            &format!("{header}\n{{\"request\":\"00\"}}\n"),
            "has no result on line 2: request is not 32 hexadecimal digits",
        ),
        (
            &format!("{header}\n{{\"request\":\"{}\"}}\n", "0".repeat(32)),
            "has no result on line 2: it has neither answers nor an error",
        ),
    ] {
        std::fs::write(place.results(), text).unwrap();
        let error = open(&place.results());
        assert_eq!(error.kind(), ErrorKind::Results);
        assert!(error.message().contains(expected), "{error}");
        assert!(error.message().contains("results.jsonl"), "{error}");
        assert_eq!(place.text(), text);
    }
}

#[test]
fn a_file_without_lines_is_refused_unread() {
    let place = Place::new();
    // Holes take no room: three gigabytes of zeros.
    let large = std::fs::File::create(place.results()).unwrap();
    large.set_len(3 << 30).unwrap();
    assert!(open(&place.results()).message().ends_with("is not a file of results"));
    assert_eq!(large.metadata().unwrap().len(), 3 << 30);

    std::fs::remove_file(place.results()).unwrap();
    place.run(&lines(2));
    let whole = place.text();
    let file = std::fs::OpenOptions::new().write(true).open(place.results()).unwrap();
    file.set_len(3 << 30).unwrap();
    let error = open(&place.results());
    assert!(error.message().ends_with("has no result on line 4: it has more than 134,217,728 bytes"), "{error}");
    file.set_len(whole.len() as u64).unwrap();
    assert_eq!(place.text(), whole);
}

#[test]
fn a_header_has_room_for_four_kibibytes() {
    let place = Place::new();
    let around = "{\"clef_eval_results\":1,\"subject\":\"\"}\n".len();
    let subject = "s".repeat(4_096 - around);
    drop(Results::open(&place.results(), &subject).unwrap());
    drop(Results::open(&place.results(), &subject).unwrap());
    let error = Results::open(&place.folder.path().join("other"), &(subject + "s")).unwrap_err();
    assert!(error.message().ends_with("would begin with a line of 4,097 bytes, the limit is 4,096"), "{error}");
    assert!(!place.folder.path().join("other").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn only_a_regular_file_holds_results() {
    let place = Place::new();
    for path in [Path::new("/dev/full"), Path::new("/dev/null"), place.folder.path()] {
        let error = open(path);
        assert_eq!(error.kind(), ErrorKind::Results);
        assert_eq!(error.message(), format!("{} is no regular file", path.display()));
    }
}

#[test]
fn subjects_that_differ_at_their_ends_are_told_in_full() {
    let place = Place::new();
    let name = |last: char| format!("http://127.0.0.1:8080/v1/systemone {}{last}", "m".repeat(100));
    drop(Results::open(&place.results(), &name('a')).unwrap());
    let error = Results::open(&place.results(), &name('b')).unwrap_err();
    assert!(error.message().contains(&name('a')) && error.message().contains(&name('b')), "{error}");
}

#[test]
fn two_runs_do_not_write_one_file() {
    let place = Place::new();
    let first = Results::open(&place.results(), "echo").unwrap();
    assert!(first.is_locked());
    assert!(open(&place.results()).message().ends_with("is in use by another run"));
    drop(first);
    Results::open(&place.results(), "echo").unwrap();
}

#[test]
fn a_cancelled_run_goes_on_where_it_was() {
    let place = Place::new();
    let text = lines(10).join("\n");
    let cancel = Cancel::new();
    {
        let results = Results::open(&place.results(), "echo").unwrap();
        let options = RunOptions { results: Some(&results), cancel: cancel.clone(), ..RunOptions::default() };
        let dataset = Dataset::new(text.as_bytes(), DatasetOptions::default());
        let stop = |progress: Progress| {
            if progress.done == 4 {
                cancel.cancel()
            }
        };
        assert!(run(dataset, &Echo::default(), &options, &stop).unwrap().is_cancelled);
    }
    let (run, asked) = place.run(&lines(10));
    assert_eq!((asked, run.resumed, run.outcomes.len()), (6, 4, 10));
}

#[test]
fn answers_to_other_questions_are_not_taken() {
    let place = Place::new();
    place.run(&lines(1));
    let tampered = place.text().replace("\"noul\":0.3", "\"noul\":7.3");
    std::fs::write(place.results(), tampered).unwrap();
    assert_eq!(place.run(&lines(1)).1, 1);
}
