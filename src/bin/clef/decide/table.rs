//! Answers as bars.

use std::fmt::Write as _;

use clef_api::{Answer, AnswerValue, Decision, Record};
use clef_server::plain;

const BAR_CELLS: usize = 30;
const LABEL_CELLS: usize = 24;

/// A block per question: its text, then a bar per option in request order; the answer is marked.
pub(crate) fn render(record: &Record, decision: &Decision) -> String {
    let mut out = String::new();
    for (question, answer) in record.questions.iter().zip(&decision.answers) {
        if !out.is_empty() {
            out.push('\n');
        }
        let _ = writeln!(out, "{}  {}", one_line(&answer.id, 40), one_line(&question.instruction, 76));
        block(&mut out, answer);
    }
    out
}

fn block(out: &mut String, answer: &Answer) {
    let labels: Vec<String> = answer.options.iter().map(label).collect();
    let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let chosen = chosen(answer);
    for (index, (option, label)) in answer.options.iter().zip(&labels).enumerate() {
        let mark = if Some(index) == chosen { "  <" } else { "" };
        let bar = bar(option.probability);
        let _ = writeln!(out, "  {label:<width$}  {:.3}  {bar}{mark}", option.probability);
    }
    if let AnswerValue::Score { score, confidence } = answer.value {
        let _ = writeln!(out, "  score {score:.2}, confidence {confidence:.2}");
    }
}

fn label(option: &clef_api::AnswerOption) -> String {
    match &option.legend {
        Some(legend) => format!("{} {}", option.key, one_line(legend.trim_matches('"'), LABEL_CELLS)),
        None => one_line(&option.key, LABEL_CELLS),
    }
}

/// The option that an answer comes down to, if it does.
fn chosen(answer: &Answer) -> Option<usize> {
    match answer.value {
        AnswerValue::Choice { index, .. } => Some(index),
        AnswerValue::Noul { noul } => {
            let key = if noul >= 0.5 { "true" } else { "false" };
            answer.options.iter().position(|option| option.key == key)
        }
        AnswerValue::Score { .. } => None,
    }
}

/// Eighths of a cell, so that small probabilities are visible.
fn bar(probability: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (probability * (BAR_CELLS * 8) as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

/// Text of a client's, without line breaks or control characters, cut to fit.
fn one_line(text: &str, cells: usize) -> String {
    let text = plain(text);
    let mut line: String = text.chars().take(cells).collect();
    if text.chars().count() > cells {
        line.pop();
        line.push('…');
    }
    line
}
