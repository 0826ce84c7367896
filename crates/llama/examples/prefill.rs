//! How fast a backbone reads, by the number of tokens that are decoded at once: what chunk sizes are chosen by.
//!
//! `prefill MODEL TOKENS THREADS CHUNK...` prints, for each chunk size, the best of three seconds for that many tokens.
//! Each round takes all sizes in turn, so that other work on the machine falls on all of them alike.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clef_llama::gguf::Gguf;
use clef_llama::{CacheType, Context, ContextParams, FlashAttention, Model, ModelParams, SequenceId, Token};

const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, tokens, threads, chunks @ ..] = arguments.as_slice() else {
        return Err("usage: prefill MODEL TOKENS THREADS CHUNK...".into());
    };
    let (tokens, threads): (u32, u32) = (tokens.parse()?, threads.parse()?);
    let model = Model::load(&Arc::new(Gguf::open(Path::new(path))?), &ModelParams::default(), &mut |_, _| true)?;
    let text: Vec<Token> = (0..tokens).map(|index| Token((index * 7919 % 3000 + 10) as i32)).collect();
    let mut contexts = Vec::new();
    for chunk in chunks {
        let chunk: u32 = chunk.parse()?;
        let params = ContextParams {
            cells: tokens,
            chunk: chunk.min(tokens),
            sequences: 1,
            threads,
            flash_attention: FlashAttention::Auto,
            keys: CacheType::F16,
            values: CacheType::F16,
        };
        contexts.push((chunk, Context::new(&model, &params)?, Duration::MAX));
    }
    for _ in 0..ROUNDS {
        for (chunk, context, best) in &mut contexts {
            context.clear_sequence(SequenceId(0))?;
            let start = Instant::now();
            for piece in text.chunks(*chunk as usize) {
                context.decode(SequenceId(0), piece)?;
            }
            *best = start.elapsed().min(*best);
        }
    }
    for (chunk, _, best) in &contexts {
        let rate = f64::from(tokens) / best.as_secs_f64();
        println!("{chunk:>6} tokens a chunk: {:.3} s, {rate:.0} tokens a second", best.as_secs_f64());
    }
    Ok(())
}
