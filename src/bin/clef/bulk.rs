//! `clef decide` on a file of requests: a response for each line, in the order of the lines.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::Context as _;
use clef_api::{Clef, Record, Ticket};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::decide::MAX_REQUEST_BYTES;
use crate::failure::Failure;

/// A line that was asked, or what is wrong with it.
type Asked = (u64, Result<Ticket, Fault>);

/// Why a line has no answer.
struct Fault {
    message: String,
    is_theirs: bool,
}

impl From<clef_api::Error> for Fault {
    fn from(error: clef_api::Error) -> Self {
        Self { is_theirs: error.is_request_fault(), message: error.to_string() }
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
pub(crate) fn run(clef: &Clef, requests: &Path, jobs: NonZeroUsize) -> Result<(), Failure> {
    let file: Box<dyn std::io::Read> = match requests.as_os_str() {
        name if name == "-" => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(requests).with_context(|| format!("cannot open {}", requests.display()))?),
    };
    let mut lines = BufReader::new(file);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{spinner} {pos} answered {per_sec}").expect("the template is right"));
    let mut asked: VecDeque<Asked> = VecDeque::new();
    let mut counts = Counts::default();
    let mut number = 0;
    loop {
        let line = next_line(&mut lines).with_context(|| format!("cannot read {}", requests.display()))?;
        let is_over = line.is_none();
        if let Some(line) = line {
            number += 1;
            if !line.trim_ascii().is_empty() {
                asked.push_back((number, ask(clef, &line)));
            }
        }
        while asked.len() >= jobs.get() || is_over && !asked.is_empty() {
            let Some(oldest) = asked.pop_front() else { break };
            let written = writeln!(out, "{}", answer(clef, oldest, &mut counts)).and_then(|()| out.flush());
            bar.inc(1);
            if written.is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe) {
                // Nobody reads on.
                return Ok(());
            }
        }
        if is_over {
            break;
        }
    }
    bar.finish_and_clear();
    let unanswered = counts.theirs + counts.ours;
    if unanswered == 0 {
        return Ok(());
    }
    let message = format!("{unanswered} of {} requests have no answer", unanswered + counts.answered);
    Err(if counts.ours > 0 { anyhow::anyhow!(message).into() } else { Failure::request(message) })
}

/// The next line without its end; none behind the last. Of a line that is too long only as much is kept as shows that.
fn next_line(lines: &mut impl std::io::BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = lines.by_ref().take(MAX_REQUEST_BYTES + 1).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 > MAX_REQUEST_BYTES {
        lines.skip_until(b'\n')?;
    }
    Ok(Some(line))
}

fn ask(clef: &Clef, line: &[u8]) -> Result<Ticket, Fault> {
    if line.len() as u64 > MAX_REQUEST_BYTES {
        let message = format!("the line is longer than {} MiB", MAX_REQUEST_BYTES >> 20);
        return Err(Fault { message, is_theirs: true });
    }
    let record = Record::parse(line).map_err(clef_api::Error::from)?;
    Ok(clef.submit(record).map_err(clef_api::Error::from)?)
}

/// The line that is printed.
fn answer(clef: &Clef, (line, asked): Asked, counts: &mut Counts) -> String {
    let outcome = asked.and_then(|ticket| ticket.wait().map_err(|error| clef_api::Error::from(error).into()));
    match outcome {
        Ok(outcome) => {
            counts.answered += 1;
            outcome.decision.to_json(clef.name())
        }
        Err(fault) => {
            if fault.is_theirs {
                counts.theirs += 1;
            } else {
                counts.ours += 1;
            }
            json!({"error": {"message": fault.message, "line": line}}).to_string()
        }
    }
}
