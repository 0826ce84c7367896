//! Asking all records of a data file, several at a time.
//!
//! Threads take lines from the file as they become free, so that memory holds as many requests as there are threads. What
//! is wrong with one record is counted and goes no further; a server that answers nobody ends the run, which a file of
//! results makes cheap to begin again. A run that brought no answer at all is a fault, too: it has measured nothing.

use std::io::BufRead;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clef_record::Grouped;

use crate::answer::read_answers;
use crate::answerer::{AnswerError, AnswerErrorKind, Answerer};
use crate::cancel::Cancel;
use crate::case::Case;
use crate::dataset::{Dataset, Line};
use crate::error::{Error, ErrorKind, Result};
use crate::outcome::{Failure, Outcome, Reply};
use crate::results::Results;
use crate::table::counted;

/// How a data file is asked.
#[derive(Debug, Clone)]
pub struct RunOptions<'a> {
    /// How many records are asked at a time. 1 by default, which is what latencies should be measured with.
    pub jobs: NonZeroUsize,
    /// The run ends when so many records one after another failed for no fault of their own; see
    /// [`AnswerErrorKind::is_of_one_record`]. While there is no answer yet, it ends at the first that
    /// [every other](AnswerErrorKind::is_of_every_record) would fail for, too. 10 by default; 0 is never.
    pub give_up_after: u64,
    /// Where answers are kept and found again, if anywhere.
    pub results: Option<&'a Results>,
    /// Stops the run.
    pub cancel: Cancel,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        Self { jobs: NonZeroUsize::MIN, give_up_after: 10, results: None, cancel: Cancel::new() }
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Records that are through, with an answer or without.
    pub done: u64,
    /// Records of the file, if that is known.
    pub total: Option<u64>,
    /// Records that are through without an answer.
    pub errors: u64,
    /// Records whose answers were found in the file of results.
    pub resumed: u64,
}

/// What a run brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// In the order of the data file. All its records, unless the run was cancelled.
    pub outcomes: Vec<Outcome>,
    /// How many of them were found in the file of results.
    pub resumed: u64,
    /// Whether the run was stopped before the end.
    pub is_cancelled: bool,
}

/// Asks every record of a data file. Blocks until all are answered, or the run is cancelled.
///
/// `on_progress` is called after each record, from any of the threads, one at a time.
///
/// # Errors
/// If the data cannot be read further or holds no records, results cannot be written, nobody answers (any more), or not
/// one record was answered. What was answered until then is in the file of results.
///
/// # Panics
/// If the answerer or `on_progress` does.
pub fn run<R: BufRead + Send>(
    dataset: Dataset<R>,
    answerer: &dyn Answerer,
    options: &RunOptions<'_>,
    on_progress: &(dyn Fn(Progress) + Sync),
) -> Result<Run> {
    let progress = Progress { done: 0, total: dataset.total(), errors: 0, resumed: 0 };
    let work = Work {
        answerer,
        options,
        on_progress,
        dataset: Mutex::new(dataset),
        stopped: AtomicBool::new(false),
        was_answered: AtomicBool::new(false),
        failed_in_a_row: AtomicU64::new(0),
        collected: Mutex::new(Collected { outcomes: Vec::new(), progress, fault: None, is_cancelled: false }),
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.get() {
            scope.spawn(|| work.work());
        }
    });
    let dataset = work.dataset.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut collected = work.collected.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(results) = options.results {
        results.sync()?;
    }
    if let Some(fault) = collected.fault {
        return Err(fault);
    }
    collected.outcomes.sort_by_key(|outcome| outcome.line);
    if !collected.is_cancelled {
        match collected.outcomes.first() {
            None => return Err(dataset.no_records()),
            Some(first) if collected.outcomes.iter().all(|outcome| outcome.reply.is_err()) => {
                return Err(nothing_answered(first, collected.outcomes.len()));
            }
            Some(_) => {}
        }
    }
    Ok(Run { outcomes: collected.outcomes, resumed: collected.progress.resumed, is_cancelled: collected.is_cancelled })
}

struct Work<'a, R> {
    answerer: &'a dyn Answerer,
    options: &'a RunOptions<'a>,
    on_progress: &'a (dyn Fn(Progress) + Sync),
    dataset: Mutex<Dataset<R>>,
    stopped: AtomicBool,
    was_answered: AtomicBool,
    failed_in_a_row: AtomicU64,
    collected: Mutex<Collected>,
}

struct Collected {
    outcomes: Vec<Outcome>,
    progress: Progress,
    fault: Option<Error>,
    is_cancelled: bool,
}

/// Where an outcome came from.
#[derive(PartialEq, Eq)]
enum Source {
    /// The line itself: nobody was asked.
    Line,
    Results,
    Asked,
}

impl<R: BufRead> Work<'_, R> {
    /// One thread's share: lines, until there are no more or somebody stopped.
    fn work(&self) {
        while !self.stopped.load(Ordering::Relaxed) {
            let line = self.dataset.lock().unwrap_or_else(PoisonError::into_inner).next_line();
            match line {
                // A line is left, so a cancelled run is not a whole one.
                Ok(Some(_)) if self.options.cancel.is_cancelled() => return self.cancelled(),
                Ok(Some(line)) => self.record(line),
                Ok(None) => return,
                Err(error) => return self.fail(error),
            }
        }
    }

    fn record(&self, line: Line) {
        let (outcome, source) = self.outcome(line);
        if let Err(Failure::Answer { kind: AnswerErrorKind::Cancelled, .. }) = outcome.reply {
            return self.cancelled();
        }
        if source == Source::Asked {
            if let Some(results) = self.options.results
                && let Err(error) = results.append(&outcome)
            {
                return self.fail(error);
            }
            self.watch(&outcome);
        }
        let mut collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        collected.progress.done += 1;
        collected.progress.errors += u64::from(outcome.reply.is_err());
        collected.progress.resumed += u64::from(source == Source::Results);
        collected.outcomes.push(outcome);
        (self.on_progress)(collected.progress);
    }

    fn outcome(&self, line: Line) -> (Outcome, Source) {
        let case = match line.case() {
            Ok(case) => case,
            Err(fault) => {
                let reply = Err(Failure::Line(fault.message));
                let (line, id) = (fault.line, fault.id);
                return (Outcome { line, id, digest: None, questions: Vec::new(), reply }, Source::Line);
            }
        };
        let held = self.options.results.and_then(|results| results.take(case.digest, &case.questions));
        let (reply, source) = match held {
            Some(reply) => (Ok(reply), Source::Results),
            None => (self.ask(&case).map_err(failure), Source::Asked),
        };
        let Case { line, id, digest, questions, .. } = case;
        (Outcome { line, id, digest: Some(digest), questions, reply }, source)
    }

    fn ask(&self, case: &Case) -> std::result::Result<Reply, AnswerError> {
        let asked = Instant::now();
        let response = self.answerer.answer(&case.body)?;
        let latency_ms = asked.elapsed().as_secs_f64() * 1e3;
        Ok(Reply { answers: read_answers(&response, &case.questions)?, latency_ms })
    }

    /// Counts records that failed one after another for no fault of their own.
    fn watch(&self, outcome: &Outcome) {
        let (kind, message) = match &outcome.reply {
            Ok(_) => {
                self.was_answered.store(true, Ordering::Relaxed);
                return self.failed_in_a_row.store(0, Ordering::Relaxed);
            }
            Err(Failure::Answer { kind, message }) if !kind.is_of_one_record() => (kind, message),
            Err(_) => return self.failed_in_a_row.store(0, Ordering::Relaxed),
        };
        let failed = self.failed_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        let is_never = self.options.give_up_after == 0;
        if kind.is_of_every_record() && !self.was_answered.load(Ordering::Relaxed) && !is_never {
            let message = format!("gave up without any answer, at {}: {message}", outcome.place());
            self.fail(Error::new(ErrorKind::GaveUp, message));
        } else if failed == self.options.give_up_after {
            let records = counted(failed, "record");
            let message = format!("gave up after {records} without an answer, the last: {message}");
            self.fail(Error::new(ErrorKind::GaveUp, message));
        }
    }

    /// Ends the run with the first fault that comes.
    fn fail(&self, error: Error) {
        self.stopped.store(true, Ordering::Relaxed);
        self.collected.lock().unwrap_or_else(PoisonError::into_inner).fault.get_or_insert(error);
    }

    fn cancelled(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.collected.lock().unwrap_or_else(PoisonError::into_inner).is_cancelled = true;
    }
}

/// What is said of a run whose records have all failed.
fn nothing_answered(first: &Outcome, records: usize) -> Error {
    let reason = first.reply.as_ref().err().map_or_else(String::new, Failure::to_string);
    let place = first.place();
    let message = match records {
        1 => format!("the only record has no answer, {place}: {reason}"),
        _ => format!("none of {} records has an answer; the first, {place}: {reason}", Grouped(records)),
    };
    Error::new(ErrorKind::NothingAnswered, message)
}

#[expect(clippy::needless_pass_by_value, reason = "the error ends here, as map_err's argument")]
fn failure(error: AnswerError) -> Failure {
    Failure::Answer { kind: error.kind(), message: error.message().to_owned() }
}
