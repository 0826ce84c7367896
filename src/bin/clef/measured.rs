//! What the commands that ask a whole file of requests have in common.

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::Context as _;
use clef_eval::{Answerer, Chart, Dataset, DatasetOptions, Outcome, Progress, Results, RunOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::Failure;

/// Asks every line of a file; how far it is, is shown where a person is watching.
pub(crate) fn ask_all(
    data: &Path,
    require_gold: bool,
    answerer: &dyn Answerer,
    jobs: NonZeroUsize,
    results: Option<&Results>,
) -> Result<Vec<Outcome>, Failure> {
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
    let options = RunOptions { jobs, results, ..RunOptions::default() };
    let run = clef_eval::run(dataset, answerer, &options, &show);
    bar.finish_and_clear();
    let run = run?;
    if run.resumed > 0 {
        let _ = writeln!(std::io::stderr(), "note: {} answers are from the file of results", run.resumed);
    }
    Ok(run.outcomes)
}

/// Writes a chart as SVG and PNG into a folder.
pub(crate) fn draw(folder: &Path, name: &str, chart: &Chart<'_>) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for (extension, bytes) in [("svg", chart.to_svg()?.into_bytes()), ("png", chart.to_png()?)] {
        let path = folder.join(format!("{name}.{extension}"));
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// How reports call a model's file: its name, and its size, which tells two files of one name apart.
pub(crate) fn subject(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).display().to_string();
    match std::fs::metadata(path) {
        Ok(metadata) => format!("{name} ({} bytes)", metadata.len()),
        Err(_) => name,
    }
}

impl From<clef_eval::Error> for Failure {
    fn from(error: clef_eval::Error) -> Self {
        anyhow::Error::new(error).into()
    }
}
