//! `clef drift`: how far one file's answers are from another's.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use clef_eval::{Cancel, Chart, DatasetOptions, Drift, Outcome, Side};
use clef_server::{FileFlags, open_with_progress};

use super::in_process::InProcess;
use super::{Format, ask_all, draw, open_data, subject};
use crate::failure::{Failure, print};
use crate::input::at_least_one;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The file whose answers are compared with, such as the BF16 one
    reference: PathBuf,

    /// The file whose answers are looked at, such as a quantized one
    candidate: PathBuf,

    /// Requests, one a line (JSONL), in a file, as they are read twice; right answers are not needed
    requests: PathBuf,

    /// Requests asked at a time
    #[arg(long, short, value_name = "N", default_value = "2", value_parser = at_least_one)]
    jobs: NonZeroUsize,

    /// How many of the questions that moved most are named
    #[arg(long, value_name = "N", default_value_t = 5)]
    worst: usize,

    #[command(flatten)]
    format: Format,

    /// Write which share of the options moved by how much, as SVG and PNG
    #[arg(long, value_name = "FOLDER")]
    charts: Option<PathBuf>,

    #[command(flatten)]
    model: FileFlags,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(folder) = &arguments.charts {
        Chart::prepare_folder(folder)?;
    }
    // What keeps the second file from deciding is said before the first one has answered everything.
    let candidate = clef_api::inspect(&arguments.candidate, &arguments.model.0.options().model)?;
    if candidate.is_projector() || candidate.is_head() {
        let what = if candidate.is_head() { "a head alone" } else { "a projector" };
        return Err(anyhow::anyhow!("{} is {what}, which cannot decide", candidate.path.display()).into());
    }
    if let Some(missing) = candidate.missing.first() {
        return Err(anyhow::anyhow!("{missing}").into());
    }
    // One after the other, so that the memory of one suffices.
    let reference = answers(arguments, &arguments.reference)?;
    let candidate = answers(arguments, &arguments.candidate)?;
    let [reference_name, candidate_name] = [&arguments.reference, &arguments.candidate].map(|path| subject(path));
    let drift = Drift::between(
        Side { subject: &reference_name, outcomes: &reference },
        Side { subject: &candidate_name, outcomes: &candidate },
        arguments.worst,
    )?;
    print(&arguments.format.choose(&drift, Drift::to_text, Drift::to_markdown, Drift::to_json))?;
    if let Some(folder) = &arguments.charts {
        draw(folder, "drift", &Chart::Drift(&drift))?;
    }
    Ok(())
}

fn answers(arguments: &Arguments, path: &Path) -> Result<Vec<Outcome>, Failure> {
    let options = DatasetOptions { require_gold: false, is_opened_again: true, ..DatasetOptions::default() };
    let dataset = open_data(&arguments.requests, options)?;
    let clef = open_with_progress(path, &arguments.model.0.options())?;
    let run = ask_all(dataset, &InProcess(clef), arguments.jobs, None, &Cancel::new())?;
    if run.is_cancelled { Err(Failure::stopped("stopped")) } else { Ok(run.outcomes) }
}
