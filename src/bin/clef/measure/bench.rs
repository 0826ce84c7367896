//! `clef bench`: how fast prompts are read, new ones and such as were asked before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use clef_api::{Clef, Outcome, Record};
use clef_eval::{BenchReport, BenchRow};
use clef_server::{ModelFlags, find_model, open_with_progress};
use serde_json::json;

use super::{Format, subject};
use crate::failure::{Failure, print};
use crate::signals;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Tokens of the prompts, or a few less: what they came to is shown, and how long it took to answer one, cold and
    /// asked again with another question [default: 256,1024,4096, or less where the context is shorter]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    sizes: Option<Vec<u32>>,

    /// How often each size is measured; the median is shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    #[command(flatten)]
    format: Format,

    #[command(flatten)]
    model: ModelFlags,
}

/// Unless others are asked for.
const SIZES: [u32; 3] = [256, 1024, 4096];

/// Tokens of the first prompt's state: enough for every size that can be asked for.
const FIRST: usize = 64;

/// The one that a prompt is asked first, and the one when it is asked again.
const QUESTIONS: [&str; 2] = ["Is the parcel late?", "Was it paid for already?"];

const WORDS: [&str; 12] = [
    "parcel", "late", "invoice", "nobody", "answered", "charged", "twice", "the", "broken", "letter", "since", "monday",
];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (file, options) = find_model(&arguments.model)?;
    let clef = open_with_progress(file.path(), &options)?;
    // The first request finds caches of the processor cold, whatever its size. It tells what a prompt has beside the state.
    let first = state(&clef, FIRST, 0);
    let mut around = 0;
    for question in QUESTIONS {
        let (outcome, _) = ask(&clef, &first, question)?;
        around = around.max(outcome.decision.input_tokens - tokens(&clef, &first));
    }
    let limit = clef.context_tokens();
    // Before anything is measured that would be lost.
    let mut sizes = match &arguments.sizes {
        Some(sizes) => sizes.clone(),
        None => SIZES.map(|size| size.min(u32::try_from(limit).unwrap_or(u32::MAX))).to_vec(),
    };
    sizes.dedup();
    if let Some(size) = sizes.iter().find(|&&size| !(around + 1..=limit).contains(&(size as usize))) {
        let least = around + 1;
        return Err(Failure::usage(format!(
            "--sizes {size}: prompts of {least} to {limit} tokens can be measured; -c moves the limit"
        )));
    }
    let mut rows = Vec::with_capacity(sizes.len());
    let mut seed = 0;
    let is_told = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_told);
    signals::on_first(move || told.store(true, Ordering::Relaxed))?;
    'sizes: for size in sizes {
        let (mut cold, mut cached) = (Vec::new(), Vec::new());
        let (mut tokens, mut read, mut reused) = (0, 0, 0);
        for _ in 0..arguments.rounds {
            if is_told.load(Ordering::Relaxed) {
                break 'sizes;
            }
            seed += 1;
            let state = state(&clef, size as usize - around, seed);
            let (first, time) = ask(&clef, &state, QUESTIONS[0])?;
            cold.push(time);
            let (again, time) = ask(&clef, &state, QUESTIONS[1])?;
            cached.push(time);
            // How every prompt begins is read when the model is opened.
            (tokens, read) = (first.decision.input_tokens, first.decision.input_tokens - first.reused_tokens);
            reused = again.reused_tokens;
        }
        rows.push(BenchRow::new(tokens as u64, read as u64, median(cold), median(cached), reused as u64));
    }
    let subject = format!("{}, {}, {} threads", subject(file.path()), clef.device_name(), clef.threads());
    let report = BenchReport { subject, rows };
    print(&arguments.format.choose(&report, BenchReport::to_text, BenchReport::to_markdown, BenchReport::to_json))?;
    if is_told.load(Ordering::Relaxed) {
        Err(Failure::stopped("stopped before all sizes were measured"))
    } else {
        Ok(())
    }
}

/// A state of so many tokens or a few less, another one for each `seed`.
fn state(clef: &Clef, wanted: usize, seed: u64) -> String {
    let mut number = seed.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(3_037_000_493);
    let mut next = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        WORDS[(number >> 33) as usize % WORDS.len()]
    };
    // The seed comes first, so that no two states share a beginning.
    let mut text = format!("{seed}.");
    // Never more tokens than characters, so this many words are enough.
    for _ in 0..wanted {
        text.push(' ');
        text.push_str(next());
    }
    // Most words are several tokens.
    let kept = text.len() * wanted / tokens(clef, &text).max(1);
    text.truncate(text.floor_char_boundary(kept.min(text.len())));
    while tokens(clef, &text) > wanted {
        text.truncate(text.rfind(' ').unwrap_or(0));
    }
    text
}

fn tokens(clef: &Clef, text: &str) -> usize {
    clef.text().tokenize(text, false).map_or(0, |tokens| tokens.len())
}

/// Asks, and returns the time it took, too.
fn ask(clef: &Clef, state: &str, question: &str) -> Result<(Outcome, Duration), Failure> {
    let body = json!({"state": state, "questions": {
        "first": {"type": "noul", "instructions": question},
        "team": {"type": "choice", "instructions": "Who answers?", "criteria": {"billing": null, "shipping": null}},
    }});
    let record = Record::parse(body.to_string().as_bytes()).map_err(Failure::request)?;
    let start = Instant::now();
    let outcome = clef.decide(record)?;
    Ok((outcome, start.elapsed()))
}

/// In milliseconds; of an even number of times the mean of the middle two.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let middle = [times[(times.len() - 1) / 2], times[times.len() / 2]];
    (middle[0] + middle[1]).as_secs_f64() / 2.0 * 1e3
}
