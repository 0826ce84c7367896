//! The log: what is said, how it looks and where it goes.
//!
//! Lines are written by threads of the log's own. Whoever reads the log may stop reading; then lines are lost, but no
//! request waits for them and the server still ends when told to.

use std::fs::File;
use std::io::{IsTerminal as _, Write};

use anyhow::Context as _;
use clef_server::flags::{Colors, LogFlags};
use clef_server::log_filter;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Lines that may wait for a slow reader before some are lost.
const WAITING_LINES: usize = 8_192;

/// Writes what still waits when dropped, for a second at most.
#[derive(Default)]
pub(crate) struct Written(#[expect(dead_code, reason = "dropping is all it is for")] Vec<WorkerGuard>);

/// Starts the log. `RUST_LOG` goes before the flags' verbosity.
pub(crate) fn start(flags: &LogFlags) -> anyhow::Result<Written> {
    if flags.disabled {
        return Ok(Written::default());
    }
    let mut guards = Vec::new();
    let mut apart = |writer: Box<dyn Write + Send>| {
        let (writer, guard) =
            NonBlockingBuilder::default().lossy(true).buffered_lines_limit(WAITING_LINES).finish(writer);
        guards.push(guard);
        writer
    };
    let filter = log_filter(level(flags.verbosity));
    // As llama-server: lines of JSON are data and go to standard output.
    let console = match flags.jsonl {
        true => layer(flags, apart(Box::new(std::io::stdout())), false),
        false => layer(flags, apart(Box::new(std::io::stderr())), is_coloured(flags.colors)),
    };
    let file = flags.file.as_ref().map(|path| {
        let file = File::options().create(true).append(true).open(path);
        file.map(|file| layer(flags, apart(Box::new(file)), false))
            .with_context(|| format!("the log file {} cannot be opened", path.display()))
    });
    let registry = tracing_subscriber::registry().with(file.transpose()?).with(console).with(filter);
    registry.try_init().context("the log cannot be started")?;
    Ok(Written(guards))
}

/// llama.cpp's numbers. Its own log says at level 3 only what worries it.
fn level(verbosity: u32) -> &'static str {
    match verbosity {
        0 | 1 => "error",
        2 => "warn",
        3 => "info",
        4 => "debug,hyper=info,hyper_util=info,rustls=info,h2=info",
        _ => "trace",
    }
}

fn is_coloured(colors: Colors) -> bool {
    match colors {
        Colors::On => true,
        Colors::Off => false,
        Colors::Auto => {
            std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    }
}

fn layer<S>(flags: &LogFlags, writer: NonBlocking, ansi: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'s> LookupSpan<'s>,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(ansi);
    let lines = lines.with_target(flags.prefix).with_level(flags.prefix);
    match (flags.jsonl, flags.timestamps) {
        (true, true) => lines.json().flatten_event(true).boxed(),
        (true, false) => lines.json().flatten_event(true).without_time().boxed(),
        (false, true) => lines.boxed(),
        (false, false) => lines.without_time().boxed(),
    }
}
