//! What these tests share: lines with the answers they will get, and whoever gives them.

use std::sync::atomic::{AtomicUsize, Ordering};

use clef_eval::{
    AnswerError, AnswerErrorKind, Answerer, Dataset, DatasetOptions, Evaluation, MeasureOptions, Outcome, Progress,
    Run, RunOptions, run,
};
use serde_json::{Map, Value, json};

/// Answers with what stands in the state under `answers`, or fails as it says under `fails`.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    asked: AtomicUsize,
}

impl Echo {
    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Answerer for Echo {
    fn answer(&self, body: &[u8]) -> Result<Vec<u8>, AnswerError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let body: Value = serde_json::from_slice(body).expect("a request is JSON");
        let kind = match body["state"]["fails"].as_str() {
            None => return Ok(json!({"model": "echo", "answers": body["state"]["answers"]}).to_string().into_bytes()),
            Some("refused") => AnswerErrorKind::Refused,
            Some("unauthorized") => AnswerErrorKind::Unauthorized,
            Some("unreachable") => AnswerErrorKind::Unreachable,
            Some("timed_out") => AnswerErrorKind::TimedOut,
            Some("busy") => AnswerErrorKind::Busy,
            Some(other) => panic!("no such failure: {other}"),
        };
        Err(AnswerError::new(kind, "as it was told"))
    }
}

/// A line of a data file in the making.
#[derive(Debug, Default)]
pub(crate) struct Record {
    questions: Map<String, Value>,
    gold: Map<String, Value>,
    answers: Map<String, Value>,
    labels: Map<String, Value>,
}

impl Record {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn label(mut self, name: &str, value: Value) -> Self {
        self.labels.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn noul(mut self, id: &str, gold: Value, truth: f64) -> Self {
        self.questions.insert(id.to_owned(), json!({"type": "noul"}));
        self.answers.insert(id.to_owned(), json!({"type": "noul", "noul": truth}));
        self.gold.insert(id.to_owned(), gold);
        self
    }

    pub(crate) fn choice(mut self, id: &str, gold: Value, options: &[(&str, f64)]) -> Self {
        let criteria: Map<String, Value> = options.iter().map(|(key, _)| ((*key).to_owned(), Value::Null)).collect();
        let by_option: Map<String, Value> = options.iter().map(|(key, p)| ((*key).to_owned(), json!(p))).collect();
        self.questions.insert(id.to_owned(), json!({"type": "choice", "criteria": criteria}));
        self.answers.insert(id.to_owned(), json!({"type": "choice", "probabilities": by_option}));
        self.gold.insert(id.to_owned(), gold);
        self
    }

    pub(crate) fn score(mut self, id: &str, gold: Value, levels: &[f64]) -> Self {
        let names: Vec<String> = (0..levels.len()).map(|level| format!("level {level}")).collect();
        let by_level: Map<String, Value> =
            levels.iter().enumerate().map(|(level, p)| (level.to_string(), json!(p))).collect();
        self.questions.insert(id.to_owned(), json!({"type": "score", "criteria": names}));
        self.answers.insert(id.to_owned(), json!({"type": "score", "probabilities": by_level}));
        self.gold.insert(id.to_owned(), gold);
        self
    }

    /// The line, answered.
    pub(crate) fn line(self) -> String {
        let state = json!({"answers": self.answers});
        self.with_state(&state)
    }

    /// The line, failing.
    pub(crate) fn failing(self, how: &str) -> String {
        self.with_state(&json!({"fails": how}))
    }

    fn with_state(self, state: &Value) -> String {
        let mut line = self.labels;
        line.insert("gold".to_owned(), Value::Object(self.gold));
        line.insert("state".to_owned(), state.clone());
        line.insert("questions".to_owned(), Value::Object(self.questions));
        Value::Object(line).to_string()
    }
}

/// What becomes of lines, asked one after another, if there are none or all fail, too.
pub(crate) fn outcomes(lines: &[String]) -> Vec<Outcome> {
    // A run without any answer is a fault, so one more line gets one, which is taken away again.
    let answered = Record::new().noul("answered", json!(true), 1.0).line();
    let text = lines.iter().chain([&answered]).fold(String::new(), |text, line| text + line + "\n");
    let mut outcomes = asked(&text, DatasetOptions::default(), &RunOptions::default()).outcomes;
    outcomes.pop();
    outcomes
}

/// What becomes of a data file's text.
pub(crate) fn asked(text: &str, dataset: DatasetOptions, options: &RunOptions<'_>) -> Run {
    run(Dataset::new(text.as_bytes(), dataset), &Echo::default(), options, &|_: Progress| {}).unwrap()
}

/// The measures of lines.
pub(crate) fn evaluated(lines: &[String]) -> Evaluation {
    Evaluation::of("echo", &outcomes(lines), &MeasureOptions::default())
}

#[track_caller]
pub(crate) fn assert_close(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
}

/// As [`assert_close`], for a figure that must be there.
#[track_caller]
pub(crate) fn assert_figure(found: Option<f64>, expected: f64) {
    assert_close(found.expect("a figure"), expected, 1e-12);
}
