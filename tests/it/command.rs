//! Running `clef` as a person would, and looking at all it says.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use clef_testkit::generated_dir;

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Asserts the exit code and that standard error holds one line, which starts with `error:`; returns it.
    #[track_caller]
    pub(crate) fn fails_with(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        let line = self.stderr.strip_suffix('\n').unwrap_or_default();
        assert!(line.starts_with("error: ") && !line.contains('\n'), "one line of error: {self:?}");
        line
    }

    /// Asserts success; returns standard output.
    #[track_caller]
    pub(crate) fn succeeds(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.stdout
    }
}

/// The command under test.
pub(crate) const CLEF: &str = env!("CARGO_BIN_EXE_clef");

/// Runs `clef` with a request on standard input.
pub(crate) fn clef(arguments: &[&str], input: &str) -> Run {
    run_with(in_clean_environment(CLEF).args(arguments), input)
}

/// A program that the environment's own settings do not reach.
pub(crate) fn in_clean_environment(program: &str) -> Command {
    let mut command = Command::new(program);
    // What is remembered of measurements on this machine is no matter of tests.
    command.env("XDG_CACHE_HOME", generated_dir().join("cache"));
    command.env_remove("RUST_LOG").env_remove("RUST_BACKTRACE").env_remove("HF_TOKEN");
    for (name, _) in std::env::vars_os() {
        if ["LLAMA_", "CLEF_ARG_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command with text on standard input.
pub(crate) fn run_with(command: &mut Command, input: &str) -> Run {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The child may refuse its arguments before it reads anything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// `clef decide` on a model, with one thread (tests run side by side), a request on standard input, and more flags.
pub(crate) fn decide(model: &Path, flags: &[&str], request: &str) -> Run {
    let mut arguments = vec!["decide", "-m", model.to_str().unwrap(), "-t", "1", "--no-repack", "-"];
    arguments.extend(flags);
    clef(&arguments, request)
}
