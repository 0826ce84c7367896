//! `clef`: decisions and model files from the command line.
//!
//! Data goes to standard output, words to standard error. Each command has a file or a folder; `failure` and `input` are
//! for all of them.

mod decide;
mod failure;
mod head;
mod input;
mod inspect;
mod limits;
mod measure;
mod signals;
mod text;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clef_server::{VERSION, normalized, start_logging};

use crate::failure::{Failure, print};

/// Decide with Clef models from the command line.
#[derive(Debug, Parser)]
#[command(name = "clef", version, long_version = VERSION, about, after_help = failure::EXIT_CODES, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// Say more on standard error: -v what happens, -vv llama.cpp's log too, -vvv everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count, display_order = 100)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer a request, or each line of a file of them: print the response as JSON, or as a table with bars
    Decide(Box<decide::Arguments>),
    /// Describe a model file without loading it
    Inspect(Box<inspect::Arguments>),
    /// Put a head into a backbone's file, or take one out of a model's
    #[command(subcommand)]
    Head(head::Command),
    /// Measure answers to labelled requests: accuracy, calibration, latency
    Eval(Box<measure::eval::Arguments>),
    /// Measure how far a file's answers are from another's
    Drift(Box<measure::drift::Arguments>),
    /// Measure how fast prompts are read
    Bench(Box<measure::bench::Arguments>),
    /// Have the backbone write text, to look at a model by itself; decisions need none
    Generate(Box<text::Arguments>),
    /// Have the backbone describe a picture
    Describe(Box<text::DescribeArguments>),
    /// Print what a shell needs to complete this program's command lines
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(normalized(std::env::args_os()));
    start_logging(arguments.verbose);
    let done = match arguments.command {
        Command::Decide(arguments) => decide::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Head(command) => head::run(&command),
        Command::Eval(arguments) => measure::eval::run(&arguments),
        Command::Drift(arguments) => measure::drift::run(&arguments),
        Command::Bench(arguments) => measure::bench::run(&arguments),
        Command::Generate(arguments) => text::run(&arguments),
        Command::Describe(arguments) => text::describe(&arguments),
        Command::Completions { shell } => completions(shell),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "clef", &mut script);
    print(&String::from_utf8_lossy(&script))
}
