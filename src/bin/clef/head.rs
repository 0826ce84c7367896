//! `clef head`: backbones and heads, together and apart.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand};
use clef_api::{ModelError, Written, attach_head, extract_head};
use clef_server::{byte_bar, plain, size};

use crate::failure::Failure;
use crate::signals;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a file that holds a backbone and a head: it decides as it is, here and in llama-server
    Attach(Attach),
    /// Write a GGUF file that holds the head of a model alone
    Extract(Extract),
}

#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// The GGUF file of the backbone
    backbone: PathBuf,

    /// The head: joint_head.safetensors (with joint_head_config.json beside it), or a GGUF file that holds one
    head: PathBuf,

    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Extract {
    /// The file that holds the head
    model: PathBuf,

    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Output {
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Attach(Attach { backbone, head, output: Output { output, force } }) => {
            with_bar(output, |progress| attach_head(backbone, head, output, *force, progress))
        }
        Command::Extract(Extract { model, output: Output { output, force } }) => {
            with_bar(output, |progress| extract_head(model, output, *force, progress))
        }
    }
}

fn with_bar(
    output: &Path,
    write: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> Result<Written, ModelError>,
) -> Result<(), Failure> {
    let goes_on = Arc::new(AtomicBool::new(true));
    let told = Arc::clone(&goes_on);
    signals::on_first(move || told.store(false, Ordering::Relaxed))?;
    let bar = byte_bar("writing");
    let written = write(&mut |written, all| {
        bar.set_length(all);
        bar.set_position(written);
        goes_on.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let written = written.map_err(clef_api::Error::from)?;
    let parts = match written.backbone_tensors {
        0 => format!("a head of {} tensors", written.head_tensors),
        backbone => format!("a backbone of {backbone} tensors and a head of {}", written.head_tensors),
    };
    let path = output.display().to_string();
    // Nobody to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{}: {}, {parts}", plain(&path), size(written.bytes));
    Ok(())
}
