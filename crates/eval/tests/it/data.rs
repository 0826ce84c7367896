//! Lines of data files: every shape that is read, and what is said about every other.

use std::io::{BufRead, BufReader, Read};

use clef_eval::{Case, Dataset, DatasetOptions, ErrorKind, LineFault, Question, RequestDigest};
use serde_json::{Value, json};

fn case(line: &str) -> Case {
    Case::parse(1, line.as_bytes(), false).unwrap()
}

#[track_caller]
fn fault(line: &str) -> LineFault {
    let fault = Case::parse(7, line.as_bytes(), true).expect_err("a fault");
    assert_eq!(fault.line, 7);
    assert!(fault.message.len() < 1_024 && !fault.message.contains(char::is_control), "{fault:?}");
    fault
}

/// A line that asks a `noul`, a `choice` and a `score`, with one gold answer.
fn labelled(question: &str, gold: &Value) -> String {
    json!({
        "gold": {question: gold},
        "state": "s",
        "questions": {
            "n": {"type": "noul"},
            "c": {"type": "choice", "criteria": {"red": null, "green": 1, "blue": "b"}},
            "s": {"type": "score", "criteria": ["low", "mid", {"high": 1}]},
        },
    })
    .to_string()
}

#[track_caller]
fn target(question: &str, gold: &Value) -> Vec<f64> {
    let case = case(&labelled(question, gold));
    let question = case.questions.iter().find(|asked| asked.id == question).unwrap();
    question.gold.as_ref().unwrap().target().to_vec()
}

#[test]
fn a_body_is_sent_as_it_stands() {
    // Numbers that a parser would print otherwise, a key written with an escape, and blanks inside values.
    let nested = r#"{"id": 5, "request": {"state": {"a": 1.50, "b": 12345678901234567890123, "A": [ ]}, "questions":{"q":{"type":"noul"}}}, "gold": {}}"#;
    let read = case(nested);
    assert_eq!(read.id.as_deref(), Some("5"));
    assert_eq!(
        String::from_utf8(read.body.clone()).unwrap(),
        r#"{"state": {"a": 1.50, "b": 12345678901234567890123, "A": [ ]}, "questions":{"q":{"type":"noul"}}}"#
    );
    assert_eq!(read.digest, RequestDigest::of(&read.body));

    let flat = r#" {"group": "g", "state": {"a": 1.50, "gold": 1e2}, "gold": {"q": true}, "questions": {"q": {"type": "noul"}}, "id": "x", "max_length": 10} "#;
    let read = case(flat);
    assert_eq!(
        String::from_utf8(read.body).unwrap(),
        r#"{"state":{"a": 1.50, "gold": 1e2},"questions":{"q": {"type": "noul"}},"max_length":10}"#
    );
    assert_eq!(read.id.as_deref(), Some("x"));
    assert_eq!(*read.questions[0].groups[0], *"g");
}

#[test]
fn gold_answers_are_written_in_several_ways() {
    for (gold, expected) in [
        (json!(true), [1.0, 0.0]),
        (json!(false), [0.0, 1.0]),
        (json!("true"), [1.0, 0.0]),
        (json!("false"), [0.0, 1.0]),
        (json!(1), [1.0, 0.0]),
        (json!(0), [0.0, 1.0]),
        (json!(0.25), [0.25, 0.75]),
        (json!([0.25, 0.75]), [0.25, 0.75]),
        (json!({"true": 0.25, "false": 0.75}), [0.25, 0.75]),
        (json!({"false": 1}), [0.0, 1.0]),
    ] {
        assert_eq!(target("n", &gold), expected, "{gold}");
    }
    assert_eq!(target("c", &json!("green")), [0.0, 1.0, 0.0]);
    assert_eq!(target("c", &json!({"blue": 0.5, "red": 0.5})), [0.5, 0.0, 0.5]);
    for (gold, expected) in [
        (json!(2), [0.0, 0.0, 1.0]),
        (json!("1"), [0.0, 1.0, 0.0]),
        (json!(1.0), [0.0, 1.0, 0.0]),
        (json!(0.25), [0.75, 0.25, 0.0]),
        (json!([0.0, 0.5, 0.5]), [0.0, 0.5, 0.5]),
        (json!({"2": 1.0}), [0.0, 0.0, 1.0]),
    ] {
        assert_eq!(target("s", &gold), expected, "{gold}");
    }
    // Written with four digits, so only nearly 1.
    let rounded = target("s", &json!([0.0404, 0.9192, 0.0403]));
    assert!((rounded.iter().sum::<f64>() - 1.0).abs() < 1e-15);
}

#[test]
fn a_split_panel_decides_nothing_and_still_has_a_level() {
    let read = case(&labelled("s", &json!(1.5)));
    let gold = read.questions[2].gold.as_ref().unwrap();
    assert_eq!((gold.label(), gold.level(), gold.certainty()), (None, 1.5, 0.5));
    let read = case(&labelled("s", &json!(1.75)));
    let gold = read.questions[2].gold.as_ref().unwrap();
    assert_eq!((gold.label(), gold.level(), gold.certainty()), (Some(2), 1.75, 0.75));
}

#[test]
fn a_gold_answer_that_does_not_fit_is_named_with_its_question() {
    for (question, gold, expected) in [
        ("x", json!(true), r#"gold names question "x", which the request does not ask"#),
        ("c", json!("pink"), r#"gold of question "c" is "pink"; its options are "red", "green", "blue""#),
        (
            "c",
            json!({"pink": 1}),
            r#"gold of question "c" names option "pink"; its options are "red", "green", "blue""#,
        ),
        ("c", json!(1), r#"gold of question "c" is 1; its options are "red", "green", "blue""#),
        ("c", json!(true), r#"gold of question "c" is true; its options are "red", "green", "blue""#),
        (
            "c",
            json!([1, 0, 0]),
            r#"gold of question "c" is a list and nothing says in which order; write {"option": probability}"#,
        ),
        ("c", json!({"red": 0.5}), r#"gold of question "c" has probabilities that sum to 0.5, not to 1"#),
        (
            "c",
            json!({"red": -1, "blue": 2}),
            r#"gold of question "c" has the probability -1; it must be a number from 0 to 1"#,
        ),
        ("c", json!({}), r#"gold of question "c" has probabilities that sum to 0, not to 1"#),
        (
            "n",
            json!("yes"),
            r#"gold of question "n" is "yes"; it is answered by true, false, or the probability of true"#,
        ),
        ("n", json!(2), r#"gold of question "n" is 2; it is answered by true, false, or the probability of true"#),
        ("n", json!([1.0]), r#"gold of question "n" lists 1 probability, it has 2 options"#),
        ("s", json!(3), r#"gold of question "s" is 3; it is answered by a level from 0 to 2"#),
        ("s", json!(-0.5), r#"gold of question "s" is -0.5; it is answered by a level from 0 to 2"#),
        ("s", json!("high"), r#"gold of question "s" is "high"; it is answered by a level from 0 to 2"#),
        ("s", json!(true), r#"gold of question "s" is true; it is answered by a level from 0 to 2"#),
        ("n", Value::Null, "there is no gold answer"),
    ] {
        assert_eq!(fault(&labelled(question, &gold)).message, expected);
    }
    let long = "é".repeat(10_000);
    assert!(fault(&labelled("c", &json!(long))).message.ends_with(r#"…"; its options are "red", "green", "blue""#));
}

#[test]
fn a_line_that_is_no_request_says_why() {
    for (line, expected) in [
        ("{", "not JSON: EOF while parsing an object at column 1"),
        ("{\"a\": \u{1}}", "not JSON: expected value at column 7"),
        ("[]", "the line is not an object"),
        ("{}", "the request has no questions"),
        (r#"{"request": 1}"#, "request is not an object"),
        (r#"{"request": {}, "questions": {}}"#, "the request has no questions"),
        (r#"{"questions": []}"#, "questions is not an object"),
        (r#"{"questions": {}}"#, "questions is empty"),
        (r#"{"questions": {"q": 1}}"#, "question \"q\" is not an object"),
        (r#"{"questions": {"q": {}}}"#, "question \"q\" has no type"),
        (r#"{"questions": {"q": {"type": "box"}}}"#, "question \"q\" is of type \"box\""),
        (r#"{"questions": {"q": {"type": "choice"}}}"#, "question \"q\" has no object as criteria"),
        (r#"{"questions": {"q": {"type": "score", "criteria": {}}}}"#, "question \"q\" has no array as criteria"),
        (r#"{"questions": {"q": {"type": "choice", "criteria": {}}}}"#, "question \"q\" has no options"),
        (r#"{"questions": {"q": {"type": "noul"}}}"#, "there is no gold answer"),
        (r#"{"questions": {"q": {"type": "noul"}}, "gold": 1}"#, "gold is neither an object nor a list"),
        (
            r#"{"questions": {"q": {"type": "noul"}}, "gold": [true, true]}"#,
            "gold is a list of 2 answers, the request asks 1 question",
        ),
        (
            r#"{"questions": {"q": {"type": "noul"}}, "gold": [true], "group": 5}"#,
            "group is neither a string nor a list of strings",
        ),
        (
            r#"{"questions": {"q": {"type": "noul"}}, "gold": [true], "families": ["a", "b"]}"#,
            "families is a list of 2 names, the request asks 1 question",
        ),
        (
            r#"{"questions": {"q": {"type": "noul"}}, "gold": [true], "families": [1]}"#,
            "families is not a list of strings",
        ),
    ] {
        assert_eq!(fault(line).message, expected, "{line}");
    }
    let named = fault(r#"{"id": "a\nb", "questions": 1}"#);
    assert_eq!((named.id.as_deref(), named.to_string().as_str()), (Some("a\nb"), "line 7: questions is not an object"));
}

#[test]
fn what_cannot_be_read_is_said_of_the_value_that_it_is_in() {
    for (line, expected) in [
        (
            r#"{"gold": {"q": "\ud800"}, "questions": {"q": {"type": "noul"}}}"#,
            "gold of question \"q\" cannot be read: ",
        ),
        (r#"{"gold": {"\ud800": 1}, "questions": {"q": {"type": "noul"}}}"#, "gold cannot be read: "),
        (r#"{"gold": {}, "questions": {"\ud800": 1}}"#, "questions cannot be read: "),
        (r#"{"request": {"\ud800": 1}}"#, "request cannot be read: "),
    ] {
        let message = fault(line).message;
        assert!(message.starts_with(expected) && message.contains("hex escape"), "{message}, not {expected}");
    }
    let large = r#"{"gold": {"q": 1e999}, "questions": {"q": {"type": "noul"}}}"#;
    assert!(fault(large).message.starts_with("gold of question \"q\" is 1e999; it is answered by "));
}

/// A line that asks questions, with a gold answer to the first, `q0`.
fn asking(questions: impl Iterator<Item = String>, gold: &str) -> String {
    let questions: Vec<String> = questions.enumerate().map(|(index, body)| format!("\"q{index}\":{body}")).collect();
    format!(r#"{{"gold":{{"q0":{gold}}},"state":1,"questions":{{{}}}}}"#, questions.join(","))
}

fn choice(options: usize) -> String {
    let options: Vec<String> = (0..options).map(|option| format!("\"{option}\":1")).collect();
    format!(r#"{{"type":"choice","criteria":{{{}}}}}"#, options.join(","))
}

fn score(levels: usize) -> String {
    format!(r#"{{"type":"score","criteria":[{}]}}"#, vec!["1"; levels].join(","))
}

#[test]
fn a_request_has_no_more_questions_and_options_than_the_api_takes() {
    let noul = || r#"{"type":"noul"}"#.to_owned();
    let one = |question: String| asking([question].into_iter(), "null");
    for (line, expected) in [
        (one(choice(256)), "question \"q0\" has 256 options, the limit is 255"),
        (one(score(1_000_000)), "question \"q0\" has 1,000,000 options, the limit is 255"),
        (asking((0..32_769).map(|_| noul()), "true"), "the request asks 32,769 questions, the limit is 32,768"),
        (
            asking((0..515).map(|_| score(255)), "1"),
            "question \"q514\" goes over the limit of 131,072 options in all questions together",
        ),
        (
            asking([choice(2)].into_iter(), &score(256).replace("\"type\":\"score\",\"criteria\":", "\"0\":")),
            "gold of question \"q0\" has the probability [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1…; \
             it must be a number from 0 to 1",
        ),
        (
            asking([score(2)].into_iter(), &format!("[{}]", vec!["0"; 300_000].join(","))),
            "gold of question \"q0\" lists 300,000 probabilities, it has 2 options",
        ),
        (
            asking([choice(2)].into_iter(), &format!("{{{}}}", vec!["\"0\":1"; 300_000].join(","))),
            "gold of question \"q0\" names 300,000 options, the limit is 255",
        ),
        (
            format!(r#"{{"gold":[{}],"questions":{{"q":{}}}}}"#, vec!["1"; 300_000].join(","), noul()),
            "gold is a list of 300,000 answers, the request asks 1 question",
        ),
        (
            format!(r#"{{"gold":[1],"group":[{}],"questions":{{"q":{}}}}}"#, vec![r#""g""#; 33].join(","), noul()),
            "group has 33 names, the limit is 32",
        ),
        (format!("{{{}}}", vec![r#""a":1"#; 40_000].join(",")), "the line has 40,000 fields, the limit is 32,768"),
    ] {
        assert_eq!(fault(&line).message, expected);
    }
    let most = case(&asking((0..514).map(|_| choice(255)), r#""254""#));
    assert_eq!(most.questions[0].gold.as_ref().unwrap().label(), Some(254));
    assert_eq!(case(&asking((0..32_768).map(|_| noul()), "true")).questions.len(), 32_768);
}

#[test]
fn many_gold_answers_are_found_at_once() {
    let gold: Vec<String> = (0..32_768).rev().map(|index| format!("\"q{index}\":true")).collect();
    let questions: Vec<String> = (0..32_768).map(|index| format!(r#""q{index}":{{"type":"noul"}}"#)).collect();
    let line = format!(r#"{{"gold":{{{}}},"questions":{{{}}}}}"#, gold.join(","), questions.join(","));
    let started = std::time::Instant::now();
    assert!(case(&line).questions.iter().all(|question| question.gold.is_some()));
    // Looked up one by one this takes a thousand times as long.
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

#[test]
fn groups_are_of_a_line_or_of_each_question() {
    let questions = r#""questions": {"a": {"type": "noul"}, "b": {"type": "noul"}}"#;
    let groups = |labels: &str| -> Vec<Vec<String>> {
        let case = case(&format!("{{{labels}{questions}}}"));
        let names = |question: &Question| question.groups.iter().map(ToString::to_string).collect();
        case.questions.iter().map(names).collect()
    };
    let none: [Vec<String>; 2] = [vec![], vec![]];
    assert_eq!(groups(""), none);
    assert_eq!(groups(r#""group": "x", "#), [["x"], ["x"]]);
    assert_eq!(groups(r#""group": ["y", "x", "y"], "#), [["x", "y"], ["x", "y"]]);
    assert_eq!(groups(r#""families": ["m", "n"], "#), [["m"], ["n"]]);
    assert_eq!(groups(r#""group": "m", "families": ["m", "n"], "#), [vec!["m"], vec!["m", "n"]]);
    assert_eq!(groups(r#""group": null, "#), none);
}

#[test]
fn reference_answers_give_the_order_of_their_options() {
    let line = json!({
        "name": "nano",
        "request": {"state": "s", "questions": {
            "c": {"type": "choice", "criteria": {"red": null, "blue": null}},
            "n": {"type": "noul"},
        }},
        "questions": [{"id": "c", "option_ids": ["blue", "red"]}, {"id": "n", "option_ids": ["true", "false"]}],
        "gold": [[0.9, 0.1], [0.2, 0.8]],
        "families": ["colors", "facts"],
        "input_ids": [1, 2, 3],
    });
    let read = case(&line.to_string());
    assert_eq!(read.id.as_deref(), Some("nano"));
    let targets: Vec<_> = read.questions.iter().map(|question| question.gold.as_ref().unwrap().target()).collect();
    assert_eq!(targets, [[0.1, 0.9], [0.2, 0.8]]);
}

#[test]
fn lines_are_numbered_as_an_editor_does() {
    let text = "\n{\"a\":1}\r\n   \n\n{}\n{} ";
    let mut dataset = Dataset::new(text.as_bytes(), DatasetOptions::default());
    let mut numbers = Vec::new();
    while let Some(line) = dataset.next_line().unwrap() {
        numbers.push(line.number());
        line.case().unwrap_err();
    }
    assert_eq!(numbers, [2, 5, 6]);
    assert_eq!(dataset.total(), None);

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let dataset = Dataset::open(file.path(), DatasetOptions::default()).unwrap();
    assert_eq!(dataset.total(), Some(3));
}

#[test]
fn a_line_beyond_the_limit_is_passed_over() {
    let text = format!("{}\n{{}}\n{}", "x".repeat(200_000), "y".repeat(101));
    let options = DatasetOptions { max_line_bytes: 100, ..DatasetOptions::default() };
    let mut dataset = Dataset::new(text.as_bytes(), options);
    let mut messages = Vec::new();
    while let Some(line) = dataset.next_line().unwrap() {
        messages.push(line.case().unwrap_err().to_string());
    }
    assert_eq!(
        messages,
        [
            "line 1: line has 200,000 bytes, the limit is 100",
            "line 2: the request has no questions",
            "line 3: line has 101 bytes, the limit is 100",
        ]
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Dataset::open("no/such/file.jsonl".as_ref(), DatasetOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(error.message().starts_with("cannot read no/such/file.jsonl: "), "{error}");
}

#[test]
fn a_file_without_a_record_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for text in ["", "\n \n", "\u{feff}\n"] {
        std::fs::write(file.path(), text).unwrap();
        let error = Dataset::open(file.path(), DatasetOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data);
        assert_eq!(error.message(), format!("{} holds no records", file.path().display()));
    }
    let folder = tempfile::tempdir().unwrap();
    let error = Dataset::open(folder.path(), DatasetOptions::default()).unwrap_err();
    assert!(error.message().starts_with(&format!("cannot read {}: ", folder.path().display())), "{error}");
}

/// All lines by number, with their ids.
fn ids<R: BufRead>(mut dataset: Dataset<R>) -> Vec<(u64, String)> {
    let mut ids = Vec::new();
    while let Some(line) = dataset.next_line().unwrap() {
        let case = line.case().unwrap();
        ids.push((case.line, case.id.unwrap()));
    }
    ids
}

fn with_id(id: &str) -> String {
    format!(r#"{{"id": "{id}", "gold": {{"q": true}}, "questions": {{"q": {{"type": "noul"}}}}}}"#)
}

#[test]
fn standard_input_is_called_so() {
    // Whatever it is while tests run: nothing is read by opening it.
    let dataset = Dataset::open("-".as_ref(), DatasetOptions::default()).unwrap();
    assert_eq!(dataset.total(), None);
    let again = DatasetOptions { is_opened_again: true, ..DatasetOptions::default() };
    let error = Dataset::open("-".as_ref(), again).unwrap_err();
    let expected = "standard input can be read only once, and is needed twice; write the records to a file";
    assert_eq!(error.message(), expected);
}

#[test]
fn a_line_that_never_ends_is_no_line() {
    let options = DatasetOptions { max_line_bytes: 1_000, ..DatasetOptions::default() };
    let first = with_id("a") + "\n";
    let mut dataset = Dataset::new(BufReader::new(first.as_bytes().chain(std::io::repeat(0))), options);
    dataset.next_line().unwrap().unwrap().case().unwrap();
    let error = dataset.next_line().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(error.message().starts_with("line 2 of the data goes on after 1,0"), "{error}");
    assert!(error.message().ends_with(" bytes, the limit is 1,000; it is no file of lines"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_of_zeros_is_no_file_of_lines() {
    let mut dataset = Dataset::open("/dev/zero".as_ref(), DatasetOptions::default()).unwrap();
    let error = dataset.next_line().unwrap_err();
    assert!(error.message().starts_with("line 1 of /dev/zero goes on after 1,073,"), "{error}");
}

#[test]
fn a_byte_order_mark_may_stand_before_the_file_and_nowhere_else() {
    let text = format!("\u{feff}{}\n\u{feff}{}\n", with_id("a"), with_id("b"));
    let mut dataset = Dataset::new(text.as_bytes(), DatasetOptions::default());
    let first = dataset.next_line().unwrap().unwrap().case().unwrap();
    assert_eq!((first.line, first.id.as_deref()), (1, Some("a")));
    let fault = dataset.next_line().unwrap().unwrap().case().unwrap_err();
    assert_eq!(fault.to_string(), "line 2: a byte order mark stands before the line; only the file may begin with one");

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("\u{feff}\n{}\n", with_id("a"))).unwrap();
    let dataset = Dataset::open(file.path(), DatasetOptions::default()).unwrap();
    assert_eq!(dataset.total(), Some(1));
    assert_eq!(ids(dataset), [(2, "a".to_owned())]);
}
