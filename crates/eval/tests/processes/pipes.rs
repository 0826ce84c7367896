//! Data that comes through a pipe.

use std::io::Write;
use std::process::Command;

use clef_eval::{Dataset, DatasetOptions, ErrorKind, Results};

fn with_id(id: &str) -> String {
    format!(r#"{{"id": "{id}", "gold": {{"q": true}}, "questions": {{"q": {{"type": "noul"}}}}}}"#)
}

#[test]
fn a_pipe_is_read_once_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Nobody writes yet: to open the pipe would wait.
    let again = DatasetOptions { is_opened_again: true, ..DatasetOptions::default() };
    let error = Dataset::open(&pipe, again).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(error.message().contains("can be read only once, and is needed twice"), "{error}");
    let error = Results::open(&pipe, "echo").unwrap_err();
    assert!(error.message().ends_with("is no regular file"), "{error}");
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
            for id in ["a", "b"] {
                writeln!(writer, "{}", with_id(id)).unwrap();
            }
        });
        let mut dataset = Dataset::open(&pipe, DatasetOptions::default()).unwrap();
        assert_eq!(dataset.total(), None);
        let mut found = Vec::new();
        while let Some(line) = dataset.next_line().unwrap() {
            let case = line.case().unwrap();
            found.push((case.line, case.id.unwrap()));
        }
        found
    });
    assert_eq!(found, [(1, "a".to_owned()), (2, "b".to_owned())]);
}
