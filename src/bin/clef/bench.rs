//! `clef bench`: how fast prompts are read, new ones and such as were asked before.

use std::time::{Duration, Instant};

use clap::Args;
use clef_api::{Clef, Record};
use clef_eval::{BenchReport, BenchRow};
use clef_server::{ModelFlags, fetch_with_progress, model_or_built_in, open_with_progress};
use serde_json::json;

use crate::failure::{Failure, print};
use crate::measured;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Tokens of the prompts
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [256, 1024, 4096])]
    sizes: Vec<usize>,

    /// How often each size is measured; the median is shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    /// Print JSON
    #[arg(long, conflicts_with_all = ["markdown"])]
    json: bool,

    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,

    #[command(flatten)]
    model: ModelFlags,
}

/// Tokens of everything but the state: the fixed text around it and two questions, about.
const AROUND: usize = 200;

const WORDS: [&str; 12] = [
    "parcel", "late", "invoice", "nobody", "answered", "charged", "twice", "the", "broken", "letter", "since", "monday",
];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let flags = fetch_with_progress(&arguments.model)?;
    let model = model_or_built_in(flags.model.as_deref())?;
    let clef = open_with_progress(model.path(), &flags.options())?;
    // The first request finds caches of the processor cold, whatever its size.
    ask(&clef, &state(&clef, 64, 0), "Is it late?")?;
    let mut rows = Vec::with_capacity(arguments.sizes.len());
    for &size in &arguments.sizes {
        let (mut cold, mut cached, mut tokens) = (Vec::new(), Vec::new(), 0);
        for round in 0..u64::from(arguments.rounds) {
            let state = state(&clef, size.saturating_sub(AROUND), 1 + round);
            let (count, time) = ask(&clef, &state, "Is it late?")?;
            cold.push(time);
            tokens = count;
            cached.push(ask(&clef, &state, "Was it paid for?")?.1);
        }
        rows.push(BenchRow::new(tokens as u64, median(cold), Some(median(cached))));
    }
    let report = BenchReport { subject: measured::subject(model.path()), rows };
    print(&match (arguments.json, arguments.markdown) {
        (true, _) => report.to_json(),
        (_, true) => report.to_markdown(),
        _ => report.to_text(),
    })
}

/// A state of about so many tokens, another one for each `seed`.
fn state(clef: &Clef, tokens: usize, seed: u64) -> String {
    let mut number = seed.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(3_037_000_493);
    let mut next = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        WORDS[(number >> 33) as usize % WORDS.len()]
    };
    // The seed comes first, so that no two states share a beginning.
    let mut text = format!("{seed}.");
    // Never more tokens than characters, so this many words are enough.
    for _ in 0..tokens {
        text.push(' ');
        text.push_str(next());
    }
    let counted = clef.text().tokenize(&text, false).map_or(tokens, |tokens| tokens.len()).max(1);
    let kept = text.len() * tokens.min(counted) / counted;
    text.truncate(text.floor_char_boundary(kept));
    text
}

/// Asks, and returns the prompt's tokens and the time.
fn ask(clef: &Clef, state: &str, question: &str) -> Result<(usize, Duration), Failure> {
    let body = json!({"state": state, "questions": {
        "first": {"type": "noul", "instructions": question},
        "team": {"type": "choice", "instructions": "Who answers?", "criteria": {"billing": null, "shipping": null}},
    }});
    let record = Record::parse(body.to_string().as_bytes()).map_err(Failure::request)?;
    let start = Instant::now();
    let outcome = clef.decide(record)?;
    Ok((outcome.decision.input_tokens, start.elapsed()))
}

/// In milliseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64) * 1e3
}
