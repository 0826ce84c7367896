//! How a command ends when it does not end well.

use std::io::Write as _;
use std::process::ExitCode;

use clef_api::ModelErrorKind;
use clef_server::plain;

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the model or a file cannot be used, or the computation failed
  2  the command line is wrong
  3  the request is not valid, or does not fit the model
  130  told to end by a signal";

/// The code of a program that was told to end.
pub(crate) const STOPPED: u8 = 130;

/// Why a command failed: one line and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// The request is at fault.
    pub(crate) fn request(message: impl std::fmt::Display) -> Self {
        Self { message: message.to_string(), code: 3 }
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl std::fmt::Display) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// A signal said so.
    pub(crate) fn stopped(message: impl std::fmt::Display) -> Self {
        Self { message: message.to_string(), code: STOPPED }
    }

    /// Prints the line and returns the code.
    pub(crate) fn report(self) -> ExitCode {
        // Nobody to tell if standard error is closed.
        let _ = writeln!(std::io::stderr(), "error: {}", plain(&self.message));
        ExitCode::from(self.code)
    }
}

impl From<clef_api::Error> for Failure {
    fn from(error: clef_api::Error) -> Self {
        let code = match &error {
            clef_api::Error::Model(error) if error.kind() == ModelErrorKind::Stopped => STOPPED,
            clef_api::Error::Model(error) if error.kind() == ModelErrorKind::InvalidOption => 2,
            error if error.is_request_fault() => 3,
            _ => 1,
        };
        Self { message: error.to_string(), code }
    }
}

impl From<clef_eval::Error> for Failure {
    fn from(error: clef_eval::Error) -> Self {
        anyhow::Error::new(error).into()
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { message: clef_server::one_line(&error), code: 1 }
    }
}

/// Prints to standard output. A reader that went away (`clef ... | head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("the output cannot be written").into())
        }
        _ => Ok(()),
    }
}
