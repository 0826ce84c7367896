//! Fetching and opening a model with a progress bar, where a person is watching.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

use clef_api::{Clef, Error, ModelOptions, Options, Writer};
use clef_hub::Phase;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{ModelFile, ModelFlags};

/// A bar of bytes on standard error; indicatif draws nothing where that is no terminal.
pub fn byte_bar(what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {bytes}/{total_bytes}");
    bar.set_style(style.expect("the template is right"));
    bar.set_prefix(what.to_owned());
    bar
}

/// Opens a model; bytes read are shown on standard error if that is a terminal.
///
/// # Errors
/// As [`Clef::open_with`].
pub fn open_with_progress(path: &Path, options: &Options) -> Result<Clef, Error> {
    loading(|progress| Clef::open_with(path, options, progress))
}

/// The same of a model that writes text.
///
/// # Errors
/// As [`Writer::open`].
pub fn open_writer_with_progress(path: &Path, options: &ModelOptions) -> Result<Writer, Error> {
    loading(|progress| Ok(Writer::open(path, options, progress)?))
}

fn loading<T>(open: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> T) -> T {
    let bar = byte_bar("loading");
    let opened = open(&mut |read, all| {
        bar.set_length(all);
        bar.set_position(read);
        true
    });
    bar.finish_and_clear();
    opened
}

/// The file that the flags name, fetched if need be, and how to open it. Whoever named none is told of the toy.
///
/// # Errors
/// As [`ModelFlags::fetch`] and [`ModelFile::find`].
pub fn find_model(flags: &ModelFlags) -> anyhow::Result<(ModelFile, Options)> {
    let flags = if flags.fetches() { fetch_with_progress(flags)? } else { flags.clone() };
    let file = ModelFile::find(flags.model.as_deref())?;
    if let Some(notice) = file.notice() {
        // Nobody to tell if standard error is closed.
        let _ = writeln!(std::io::stderr(), "{notice}");
    }
    Ok((file, flags.options()))
}

fn fetch_with_progress(flags: &ModelFlags) -> anyhow::Result<ModelFlags> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
        .expect("the template is right");
    bar.set_style(style);
    let fetched = flags.fetch(&mut |progress| {
        let what = match progress.phase {
            Phase::Waiting => "waiting for another download of",
            Phase::Checking => "checking",
            Phase::Pausing => "trying again soon:",
            _ => "fetching",
        };
        bar.set_message(format!("{what} {}", progress.file));
        if let Some(total) = progress.total {
            bar.set_length(total);
        }
        bar.set_position(progress.bytes);
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    Ok(flags.clone().with(fetched?))
}
