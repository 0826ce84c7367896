//! Damages the fixtures at random and reads each: `cargo run --release -p clef-media --example corrupt -- 5000 [SEED]`.
//!
//! Ends with code 1 if a decoder panicked. A file is found again by the seed and its number.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::process::ExitCode;

#[path = "../tests/it/corruption.rs"]
mod corruption;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut next = || arguments.next().transpose();
    let (Ok(count), Ok(seed)) = (next(), next()) else {
        println!("usage: corrupt [COUNT [SEED]], both numbers");
        return ExitCode::FAILURE;
    };
    let (count, seed) = (count.unwrap_or(5_000), seed.unwrap_or_else(corruption::fresh_seed));
    println!("seed {seed}");
    let report = corruption::run(seed, count as usize);
    println!("{report}");
    report.panics.iter().for_each(|panic| println!("panicked: {panic}"));
    if report.panics.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
