//! `clef decide` on a file of requests: a response for each line, in the order of the lines.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::Context as _;
use clef_api::Record;
use clef_server::{ModelFlags, find_model, open_with_progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::failure::Failure;
use crate::input::MAX_REQUEST_BYTES;

/// Why a line has no answer.
enum Fault {
    /// The request is at fault.
    Theirs(String),
    /// The model failed.
    Ours(String),
    /// There are no further lines.
    Unreadable(std::io::Error),
}

impl From<clef_api::Error> for Fault {
    fn from(error: clef_api::Error) -> Self {
        if error.is_request_fault() { Self::Theirs(error.to_string()) } else { Self::Ours(error.to_string()) }
    }
}

/// What became of the lines.
#[derive(Default)]
struct Counts {
    answered: u64,
    theirs: u64,
    ours: u64,
}

/// Answers each line. A line that cannot be answered becomes a line that says why, and the rest goes on.
pub(crate) fn run(flags: &ModelFlags, requests: &Path, jobs: NonZeroUsize) -> Result<(), Failure> {
    let file: Box<dyn std::io::Read> = match requests.as_os_str() {
        name if name == "-" => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(requests).with_context(|| format!("cannot open {}", requests.display()))?),
    };
    let mut lines = BufReader::new(file);
    let (model, options) = find_model(flags)?;
    let clef = open_with_progress(model.path(), &options)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{spinner} {pos} answered {per_sec}").expect("the template is right"));
    // Of the lines that were asked and not answered yet.
    let numbers = RefCell::new(VecDeque::new());
    let mut number = 0_u64;
    let records = std::iter::from_fn(|| {
        loop {
            let line = match next_line(&mut lines) {
                Ok(line) => line?,
                Err(error) => return Some(Err(Fault::Unreadable(error))),
            };
            number += 1;
            if !line.trim_ascii().is_empty() {
                numbers.borrow_mut().push_back(number);
                return Some(parse(&line));
            }
        }
    });
    let mut counts = Counts::default();
    for outcome in clef.decide_each(records, jobs) {
        let (answered, count) = match outcome {
            Ok(outcome) => (Ok(outcome), &mut counts.answered),
            Err(Fault::Theirs(message)) => (Err(message), &mut counts.theirs),
            Err(Fault::Ours(message)) => (Err(message), &mut counts.ours),
            Err(Fault::Unreadable(error)) => {
                let context = format!("cannot read {}", requests.display());
                return Err(anyhow::Error::new(error).context(context).into());
            }
        };
        *count += 1;
        let line = numbers.borrow_mut().pop_front();
        let reply = match answered {
            Ok(outcome) => outcome.decision.to_json(clef.name()),
            Err(message) => json!({"error": {"message": message, "line": line}}).to_string(),
        };
        match writeln!(out, "{reply}").and_then(|()| out.flush()) {
            // Nobody reads on.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.context("the output cannot be written")?,
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let unanswered = counts.theirs + counts.ours;
    if unanswered == 0 {
        return Ok(());
    }
    let verb = if unanswered == 1 { "has" } else { "have" };
    let message = format!("{unanswered} of {} requests {verb} no answer", unanswered + counts.answered);
    Err(if counts.ours > 0 { anyhow::anyhow!(message).into() } else { Failure::request(message) })
}

/// The next line without its end; none behind the last. Of a line that is too long only as much is kept as shows that.
fn next_line(lines: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = lines.by_ref().take(MAX_REQUEST_BYTES + 1).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 > MAX_REQUEST_BYTES {
        // A device that never ends a line is no file of requests.
        let skipped = lines.by_ref().take(7 * MAX_REQUEST_BYTES).skip_until(b'\n')?;
        if skipped as u64 == 7 * MAX_REQUEST_BYTES {
            return Err(std::io::Error::other("a line does not end"));
        }
    }
    Ok(Some(line))
}

fn parse(line: &[u8]) -> Result<Record, Fault> {
    if line.len() as u64 > MAX_REQUEST_BYTES {
        return Err(Fault::Theirs(format!("the line is longer than {} MiB", MAX_REQUEST_BYTES >> 20)));
    }
    Ok(Record::parse(line).map_err(clef_api::Error::from)?)
}
