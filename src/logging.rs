//! The log, on standard error.

use std::io::{IsTerminal as _, Write as _};

use tracing_subscriber::EnvFilter;

/// What `RUST_LOG` asks for, else `directives`. HTTP clients tell all bytes that they send, and a token is among those:
/// of theirs only warnings are ever shown.
pub fn log_filter(directives: &str) -> EnvFilter {
    let variable = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let asked = if variable.is_empty() { None } else { Some(EnvFilter::try_new(&variable)) };
    let filter = match asked {
        Some(Ok(filter)) => filter,
        Some(Err(error)) => {
            // There is no log yet that it could be said in.
            let _ = writeln!(std::io::stderr(), "warning: {} is not used: {error}", EnvFilter::DEFAULT_ENV);
            EnvFilter::new(directives)
        }
        None => EnvFilter::new(directives),
    };
    ["ureq=warn", "ureq_proto=warn", "rustls=warn"]
        .into_iter()
        .fold(filter, |filter, directive| filter.add_directive(directive.parse().expect("a directive")))
}

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
    let filter = log_filter(filter);
    // A second call, as in tests, keeps the first log.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_target(verbosity > 0)
        .with_writer(std::io::stderr)
        .try_init();
}
