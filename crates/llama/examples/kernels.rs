//! How fast each of the CPU's kernels multiplies with a file's weights: what they are chosen by.
//!
//! `kernels MODEL LAYERS TOKENS THREADS` prints seconds for all products of the file's first layers, with the weights as
//! they are and repacked, and how long it took to find out.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use clef_llama::gguf::Gguf;
use clef_llama::kernels::{Layout, Matrices, Setting, repack_refusal};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, layers, tokens, threads] = arguments.as_slice() else {
        return Err("usage: kernels MODEL LAYERS TOKENS THREADS".into());
    };
    let gguf = Gguf::open(Path::new(path))?;
    let start = Instant::now();
    let matrices = Matrices::of(&gguf, layers.parse()?)?;
    println!("{}", matrices.describe());
    let threads = threads.parse()?;
    let mut bench = matrices.load(tokens.parse()?, threads)?;
    let loaded = start.elapsed();
    let settings = [Layout::Plain, Layout::Repacked].map(|layout| Setting { layout, threads });
    let seconds = bench.seconds(&settings, Duration::from_millis(300))?;
    println!("plain {:.4} s, repacked {:.4} s: {:.2} times", seconds[0], seconds[1], seconds[1] / seconds[0]);
    println!(
        "{:.0} ms to load, {:.0} ms to measure",
        1e3 * loaded.as_secs_f64(),
        1e3 * (start.elapsed() - loaded).as_secs_f64()
    );
    if let Some(reason) = repack_refusal() {
        println!("but {reason}");
    }
    Ok(())
}
