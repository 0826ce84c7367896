//! The log, on standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts the log. `verbosity` 0 shows warnings, 1 what happens, 2 llama.cpp's log too, 3 everything. The environment
/// variable `RUST_LOG` goes before it.
pub fn start_logging(verbosity: u8) {
    let filter = match verbosity {
        // What fails is reported once, by the command.
        0 => "warn,llama.cpp=off,clef_engine=off",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter));
    // A second call, as in tests, keeps the first log.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_target(verbosity > 0)
        .with_writer(std::io::stderr)
        .try_init();
}
