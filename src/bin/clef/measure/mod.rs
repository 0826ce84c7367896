//! The commands that measure: `clef eval`, `clef drift` and `clef bench`, and what they have in common.

pub(crate) mod bench;
pub(crate) mod drift;
pub(crate) mod eval;
mod identity;
mod in_process;

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use clef_eval::{Answerer, Cancel, Chart, Dataset, DatasetOptions, Progress, Results, Run, RunOptions};
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
        text: fn(&R) -> String,
        markdown: fn(&R) -> String,
        json: fn(&R) -> String,
    ) -> String {
        match (self.json, self.markdown) {
            (true, _) => json(report),
            (_, true) => markdown(report),
            _ => text(report),
        }
    }
}

/// Asks every line of a file; how far it is, is shown where a person is watching.
///
/// A first signal to end stops it in good order, with what was answered until then; a second one ends the program.
fn ask_all(
    data: &Path,
    require_gold: bool,
    answerer: &dyn Answerer,
    jobs: NonZeroUsize,
    results: Option<&Results>,
) -> Result<Run, Failure> {
    let dataset = Dataset::open(data, DatasetOptions { require_gold, ..DatasetOptions::default() })?;
    // indicatif draws nothing where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(dataset.total(), ProgressDrawTarget::stderr());
    let template = "{wide_bar} {pos}/{len} {msg} {eta}";
    bar.set_style(ProgressStyle::with_template(template).expect("the template is right"));
    let show = |progress: Progress| {
        bar.set_position(progress.done);
        if progress.errors > 0 {
            bar.set_message(format!("{} without an answer", progress.errors));
        }
    };
    let cancel = Cancel::new();
    let switch = cancel.clone();
    signals::on_first(move || switch.cancel())?;
    let options = RunOptions { jobs, results, cancel, ..RunOptions::default() };
    let run = clef_eval::run(dataset, answerer, &options, &show);
    bar.finish_and_clear();
    let run = run?;
    if run.resumed > 0 {
        let _ = writeln!(std::io::stderr(), "note: {} answers are from the file of results", run.resumed);
    }
    Ok(run)
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
