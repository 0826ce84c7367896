//! The commands that measure: `clef eval`, `clef drift` and `clef bench`, and what they have in common.

pub(crate) mod bench;
pub(crate) mod drift;
pub(crate) mod eval;
mod identity;
mod in_process;

use std::io::{BufRead, BufReader, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use clef_eval::{Answerer, Cancel, Chart, Dataset, DatasetOptions, Input, Progress, Results, Run, RunOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::Failure;
use crate::signals;

/// How a report is printed.
#[derive(Debug, Args)]
struct Format {
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

impl Format {
    /// The one of three forms that was asked for.
    fn choose<R>(
        &self,
        report: &R,
        text: impl FnOnce(&R) -> String,
        markdown: impl FnOnce(&R) -> String,
        json: impl FnOnce(&R) -> String,
    ) -> String {
        match (self.json, self.markdown) {
            (true, _) => json(report),
            (_, true) => markdown(report),
            _ => text(report),
        }
    }
}

/// Opens a file of requests, `-` for standard input.
fn open_data(path: &Path, options: DatasetOptions) -> Result<Dataset<BufReader<Input>>, Failure> {
    Ok(Dataset::open(path, options)?)
}

/// Asks every line of a file; how far it is, is shown where a person is watching.
///
/// A first signal to end throws the switch, which stops it in good order, with what was answered until then; a second one
/// ends the program.
fn ask_all<R: BufRead + Send>(
    dataset: Dataset<R>,
    answerer: &dyn Answerer,
    jobs: NonZeroUsize,
    results: Option<&Results>,
    cancel: &Cancel,
) -> Result<Run, Failure> {
    if let Some(results) = results {
        tell_about(results);
    }
    // indicatif draws nothing where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(dataset.total(), ProgressDrawTarget::stderr());
    let template = "{wide_bar} {pos}/{len} {msg} {eta}";
    bar.set_style(ProgressStyle::with_template(template).expect("the template is right"));
    let show = |progress: Progress| {
        bar.set_position(progress.done);
        match progress.errors {
            0 => {}
            1 => bar.set_message("1 error"),
            errors => bar.set_message(format!("{errors} errors")),
        }
    };
    let switch = cancel.clone();
    signals::on_first(move || switch.cancel())?;
    let options = RunOptions { jobs, results, cancel: cancel.clone(), ..RunOptions::default() };
    let run = clef_eval::run(dataset, answerer, &options, &show);
    bar.finish_and_clear();
    let run = run?;
    match run.resumed {
        0 => {}
        1 => note("1 answer is from the file of results"),
        resumed => note(&format!("{resumed} answers are from the file of results")),
    }
    Ok(run)
}

/// What is worth knowing of a file of results before a run goes on with it.
fn tell_about(results: &Results) {
    match results.dropped_bytes() {
        0 => {}
        bytes => note(&format!(
            "the last line of the file of results was cut off and is dropped ({bytes} bytes); its record is asked again"
        )),
    }
    if !results.is_locked() {
        note("the file of results cannot be locked where it is; let no other run write it");
    }
}

fn note(text: &str) {
    // Nobody to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "note: {text}");
}

/// Writes a chart as SVG and PNG into a folder.
fn draw(folder: &Path, name: &str, chart: &Chart<'_>) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for (extension, bytes) in [("svg", chart.to_svg()?.into_bytes()), ("png", chart.to_png()?)] {
        let path = folder.join(format!("{name}.{extension}"));
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// How reports call a model's file: its name, and its size, which tells two files of one name apart.
fn subject(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).display().to_string();
    match std::fs::metadata(path) {
        Ok(metadata) => format!("{name} ({} bytes)", metadata.len()),
        Err(_) => name,
    }
}
