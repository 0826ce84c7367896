//! Opening a model with a progress bar, where a person is watching.

use std::path::Path;

use clef_api::{Clef, Error, Options};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Opens a model; bytes read are shown on standard error if that is a terminal.
///
/// # Errors
/// As [`Clef::open_with`].
pub fn open_with_progress(path: &Path, options: &Options) -> Result<Clef, Error> {
    // indicatif draws nothing where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style =
        ProgressStyle::with_template("loading {wide_bar} {bytes}/{total_bytes}").expect("the template is right");
    bar.set_style(style);
    let opened = Clef::open_with(path, options, &mut |read, all| {
        bar.set_length(all);
        bar.set_position(read);
        true
    });
    bar.finish_and_clear();
    opened
}
