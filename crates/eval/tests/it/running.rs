//! Asking many records: order, threads, progress, faults and being stopped.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};

use clef_eval::{
    AnswerError, AnswerErrorKind, Answerer, Cancel, Dataset, DatasetOptions, ErrorKind, Failure, Progress, RunOptions,
    run,
};
use serde_json::{Value, json};

use crate::support::{Echo, Record, asked};

fn jobs(jobs: usize) -> RunOptions<'static> {
    RunOptions { jobs: NonZeroUsize::new(jobs).unwrap(), ..RunOptions::default() }
}

fn lines(count: usize) -> Vec<String> {
    let line = |index: usize| Record::new().noul("q", json!(true), index as f64 / count as f64).line();
    (0..count).map(line).collect()
}

fn dataset(text: &str) -> Dataset<&[u8]> {
    Dataset::new(text.as_bytes(), DatasetOptions::default())
}

#[test]
fn outcomes_are_in_the_order_of_the_file_whatever_the_number_of_threads() {
    let text = lines(200).join("\n");
    let one = asked(&text, DatasetOptions::default(), &jobs(1));
    let many = asked(&text, DatasetOptions::default(), &jobs(8));
    let strip = |run: clef_eval::Run| -> Vec<_> {
        let mut outcomes = run.outcomes;
        outcomes.iter_mut().for_each(|outcome| outcome.reply.as_mut().unwrap().latency_ms = 0.0);
        outcomes
    };
    assert!(!one.is_cancelled && one.resumed == 0);
    let one = strip(one);
    assert!(one.iter().map(|outcome| outcome.line).eq(1..=200));
    assert_eq!(one, strip(many));
}

#[test]
fn as_many_records_are_asked_at_a_time_as_there_are_jobs() {
    /// Answers nobody before all four are there.
    struct Together(Barrier, Echo);
    impl Answerer for Together {
        fn answer(&self, body: &[u8]) -> Result<Vec<u8>, AnswerError> {
            self.0.wait();
            self.1.answer(body)
        }
    }
    let text = lines(8).join("\n");
    let run = run(dataset(&text), &Together(Barrier::new(4), Echo::default()), &jobs(4), &|_| {}).unwrap();
    assert!(run.outcomes.iter().all(|outcome| outcome.reply.is_ok()));
}

#[test]
fn a_bad_line_is_counted_and_the_others_are_asked() {
    let good = || Record::new().noul("q", json!(true), 0.5);
    let lines =
        [good().line(), "nonsense".to_owned(), good().failing("refused"), good().label("id", json!("last")).line()];
    let progress = Mutex::new(Vec::new());
    let echo = Echo::default();
    let run = run(dataset(&lines.join("\n")), &echo, &jobs(1), &|now| progress.lock().unwrap().push(now)).unwrap();
    assert_eq!(echo.asked(), 3);
    let replies: Vec<_> = run.outcomes.iter().map(|outcome| outcome.reply.as_ref().err().cloned()).collect();
    let refused = Failure::Answer { kind: AnswerErrorKind::Refused, message: "as it was told".to_owned() };
    let line = Failure::Line("not JSON: expected ident at column 2".to_owned());
    assert_eq!(replies, [None, Some(line), Some(refused), None]);
    assert_eq!(run.outcomes[3].name(), "last");
    assert_eq!(run.outcomes[2].name(), "line 3");
    let at = |done, errors| Progress { done, total: None, errors, resumed: 0 };
    assert_eq!(*progress.lock().unwrap(), [at(1, 0), at(2, 1), at(3, 2), at(4, 2)]);
}

#[test]
fn an_answer_to_something_else_is_an_error_of_its_record() {
    struct Wrong;
    impl Answerer for Wrong {
        fn answer(&self, _: &[u8]) -> Result<Vec<u8>, AnswerError> {
            Ok(br#"{"answers": {"q": {"type": "noul", "noul": NaN}}}"#.to_vec())
        }
    }
    /// Only the first answer is one.
    struct Mostly(Wrong, Echo);
    impl Answerer for Mostly {
        fn answer(&self, body: &[u8]) -> Result<Vec<u8>, AnswerError> {
            if self.1.asked() == 0 { self.1.answer(body) } else { self.0.answer(body) }
        }
    }
    let run = run(dataset(&lines(20).join("\n")), &Mostly(Wrong, Echo::default()), &jobs(1), &|_| {}).unwrap();
    for outcome in &run.outcomes[1..] {
        let Err(Failure::Answer { kind: AnswerErrorKind::Unreadable, message }) = &outcome.reply else { panic!() };
        assert!(message.starts_with("response is not JSON"), "{message}");
    }
}

#[test]
fn nobody_is_asked_for_ever_in_vain() {
    let good = || Record::new().noul("q", json!(true), 0.5);
    for kind in ["unreachable", "unauthorized", "timed_out", "busy"] {
        let failing = |count| vec![good().failing(kind); count];
        let mut lines = vec![good().line()];
        lines.extend(failing(3));
        lines.push(good().line());
        lines.extend(failing(5));
        // Faults of single records neither count nor end the row.
        let echo = Echo::default();
        let options = RunOptions { give_up_after: 4, ..jobs(1) };
        let error = run(dataset(&lines.join("\n")), &echo, &options, &|_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::GaveUp);
        assert_eq!(error.message(), "gave up after 4 records without an answer, the last: as it was told");
        assert_eq!(echo.asked(), 9);
        let options = RunOptions { give_up_after: 0, ..jobs(1) };
        assert_eq!(run(dataset(&lines.join("\n")), &Echo::default(), &options, &|_| {}).unwrap().outcomes.len(), 10);
    }
    let mut refused = vec![good().failing("refused"); 20];
    refused.push(good().line());
    assert_eq!(run(dataset(&refused.join("\n")), &Echo::default(), &jobs(1), &|_| {}).unwrap().outcomes.len(), 21);
}

#[test]
fn a_server_that_answers_nobody_is_not_asked_twice() {
    let good = || Record::new().noul("q", json!(true), 0.5);
    for (kind, asked) in [("unreachable", 1), ("unauthorized", 1), ("busy", 3), ("timed_out", 3)] {
        let mut lines = vec!["{}".to_owned()];
        lines.extend(vec![good().label("id", json!("m2")).failing(kind); 5]);
        let echo = Echo::default();
        let options = RunOptions { give_up_after: 3, ..jobs(1) };
        let error = run(dataset(&lines.join("\n")), &echo, &options, &|_| {}).unwrap_err();
        assert_eq!((error.kind(), echo.asked()), (ErrorKind::GaveUp, asked), "{kind}");
        let expected = match asked {
            1 => "gave up without any answer, at line 2 (m2): as it was told",
            _ => "gave up after 3 records without an answer, the last: as it was told",
        };
        assert_eq!(error.message(), expected);
        // Whoever never gives up is told in the end.
        let options = RunOptions { give_up_after: 0, ..jobs(1) };
        let error = run(dataset(&lines.join("\n")), &Echo::default(), &options, &|_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NothingAnswered);
    }
}

#[test]
fn a_run_without_any_answer_is_a_fault_that_names_the_first() {
    let refused = Record::new().noul("q", json!(true), 0.5).label("id", json!("m1")).failing("refused");
    for (lines, expected) in [
        (vec!["{}".to_owned()], "the only record has no answer, line 1: the request has no questions"),
        (
            vec![String::new(), refused.clone(), "{}".to_owned(), refused],
            "none of 3 records has an answer; the first, line 2 (m1): as it was told",
        ),
    ] {
        let error = run(dataset(&lines.join("\n")), &Echo::default(), &jobs(2), &|_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NothingAnswered);
        assert_eq!(error.message(), expected);
    }
}

#[test]
fn data_without_records_is_a_fault() {
    for text in ["", "\n", " \r\n\n", "\u{feff}", "\u{feff}\n"] {
        let error = run(dataset(text), &Echo::default(), &jobs(2), &|_| {}).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Data, "the data holds no records"), "{text:?}");
    }
}

#[test]
fn a_cancelled_run_says_so_and_keeps_what_it_has() {
    let cancel = Cancel::new();
    let options = RunOptions { cancel: cancel.clone(), ..jobs(1) };
    let text = lines(10).join("\n");
    let stop_after = |done: u64| {
        let cancel = cancel.clone();
        move |progress: Progress| {
            if progress.done == done {
                cancel.cancel()
            }
        }
    };
    let run_to = |done| run(dataset(&text), &Echo::default(), &options, &stop_after(done)).unwrap();
    let stopped = run_to(3);
    assert!(stopped.is_cancelled);
    assert_eq!(stopped.outcomes.len(), 3);
    assert!(run_to(0).outcomes.is_empty(), "the switch stays thrown");
}

#[test]
fn a_run_that_is_cancelled_after_its_last_record_is_whole() {
    let cancel = Cancel::new();
    let options = RunOptions { cancel: cancel.clone(), ..jobs(1) };
    let text = lines(2).join("\n");
    let last = |progress: Progress| {
        if progress.done == 2 {
            cancel.cancel()
        }
    };
    assert!(!run(dataset(&text), &Echo::default(), &options, &last).unwrap().is_cancelled);
}

#[test]
fn a_file_that_cannot_be_read_further_ends_the_run() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    let text = lines(3).join("\n") + "\n";
    let reader = BufReader::new(text.as_bytes().chain(Broken));
    let dataset = Dataset::new(reader, DatasetOptions::default());
    let error = run(dataset, &Echo::default(), &jobs(2), &|_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert_eq!(error.message(), "cannot read the data after line 3: the disk is gone");
}

#[test]
fn no_more_lines_are_read_than_are_being_asked() {
    /// Hands out a line at a time and counts them.
    struct Counted<'a> {
        lines: Vec<String>,
        at: usize,
        offset: usize,
        read: &'a AtomicUsize,
    }
    impl Read for Counted<'_> {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            unreachable!("a dataset reads buffered")
        }
    }
    impl BufRead for Counted<'_> {
        fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
            let Some(line) = self.lines.get(self.at) else { return Ok(&[]) };
            if self.offset == 0 {
                self.read.fetch_add(1, Ordering::SeqCst);
            }
            Ok(&line.as_bytes()[self.offset..])
        }
        fn consume(&mut self, amount: usize) {
            self.offset += amount;
            if self.offset == self.lines.get(self.at).map_or(0, String::len) {
                self.at += 1;
                self.offset = 0;
            }
        }
    }
    struct Watched<'a> {
        echo: Echo,
        read: &'a AtomicUsize,
    }
    impl Answerer for Watched<'_> {
        fn answer(&self, body: &[u8]) -> Result<Vec<u8>, AnswerError> {
            let asked_before = self.echo.asked();
            // Each of the three threads holds at most one line.
            assert!(self.read.load(Ordering::SeqCst) <= asked_before + 3);
            self.echo.answer(body)
        }
    }
    let read = AtomicUsize::new(0);
    let lines: Vec<String> = lines(50).into_iter().map(|line| line + "\n").collect();
    let dataset = Dataset::new(Counted { lines, at: 0, offset: 0, read: &read }, DatasetOptions::default());
    let run = run(dataset, &Watched { echo: Echo::default(), read: &read }, &jobs(3), &|_| {}).unwrap();
    assert_eq!(run.outcomes.len(), 50);
}

#[test]
fn the_answerer_is_sent_the_request_and_no_labels() {
    struct Keys(Mutex<HashSet<String>>, Echo);
    impl Answerer for Keys {
        fn answer(&self, body: &[u8]) -> Result<Vec<u8>, AnswerError> {
            let request: Value = serde_json::from_slice(body).unwrap();
            self.0.lock().unwrap().extend(request.as_object().unwrap().keys().cloned());
            self.1.answer(body)
        }
    }
    let keys = Keys(Mutex::default(), Echo::default());
    let line = Record::new()
        .noul("q", json!(true), 0.5)
        .label("id", json!(1))
        .label("group", json!("g"))
        .label("families", json!(["f"]))
        .line();
    run(dataset(&line), &keys, &jobs(1), &|_| {}).unwrap();
    let sent = keys.0.into_inner().unwrap();
    assert_eq!(sent, ["state", "questions"].map(str::to_owned).into());
}
