//! What is printed instead of serving.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context as _;
use clef_api::DeviceKind;
use clef_server::VERSION;
use clef_server::flags::{self, Action};

/// Prints what was asked for to standard output.
pub(crate) fn print(action: Action) -> anyhow::Result<()> {
    let mut text = Vec::new();
    match action {
        Action::Help => write!(text, "{}", flags::command().render_help())?,
        Action::Version => writeln!(text, "clef-server {VERSION}")?,
        Action::ListDevices => text.extend_from_slice(devices().as_bytes()),
        Action::Completions(shell) => {
            clap_complete::generate(shell, &mut flags::command(), "clef-server", &mut text);
        }
        Action::Man => clap_mangen::Man::new(flags::command().version(env!("CARGO_PKG_VERSION"))).render(&mut text)?,
        Action::HelpMarkdown => text.extend_from_slice(flags::markdown().as_bytes()),
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(&text).and_then(|()| out.flush()) {
        // A reader that went away (`clef-server --help | head`) is no failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("the output cannot be written")
        }
        _ => Ok(()),
    }
}

/// As llama-server lists them: without the CPU, which is always there.
fn devices() -> String {
    let mut out = "Available devices:\n".to_owned();
    let others: Vec<_> = clef_api::devices().into_iter().filter(|device| device.kind() != DeviceKind::Cpu).collect();
    if others.is_empty() {
        out.push_str("  (none)\n");
    }
    for device in others {
        let (free, total) = device.memory();
        let (name, description) = (device.name(), device.description());
        let _ = writeln!(out, "  {name}: {description} ({} MiB, {} MiB free)", total >> 20, free >> 20);
    }
    out
}
