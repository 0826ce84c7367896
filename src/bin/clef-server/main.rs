//! `clef-server`: decisions over HTTP, started as llama-server is.
//!
//! Here everything meets: flags become a configuration, a model is loaded on a thread of its own while the port already
//! answers, and whatever ends the server becomes an exit code.

mod about;
mod card;
mod hooks;
mod load;
mod log;
mod serve;

use std::io::Write as _;
use std::process::ExitCode;

use clef_server::{flags, one_line};

fn main() -> ExitCode {
    let settings = match flags::parse(std::env::args_os().skip(1), |name| std::env::var_os(name)) {
        Ok(settings) => settings,
        Err(error) => return refuse(&error.to_string()),
    };
    let done = match settings.action {
        Some(action) => about::print(action).map(|()| ExitCode::SUCCESS),
        None => serve::serve(&settings),
    };
    done.unwrap_or_else(|error| refuse(&format!("error: {}", one_line(&error))))
}

/// Says why, and ends with llama-server's code for it.
fn refuse(words: &str) -> ExitCode {
    // Nobody to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{words}");
    ExitCode::FAILURE
}
