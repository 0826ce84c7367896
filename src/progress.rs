//! Opening a model with a progress bar, where a person is watching.

use std::path::Path;

use clef_api::{Clef, Error, Options};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
    let bar = byte_bar("loading");
    let opened = Clef::open_with(path, options, &mut |read, all| {
        bar.set_length(all);
        bar.set_position(read);
        true
    });
    bar.finish_and_clear();
    opened
}
