//! How long the head takes to read a prompt and to answer, by the way in which options and questions read the prompt.
//!
//! `answer MODEL TOKENS QUESTIONS OPTIONS THREADS` prints milliseconds, the best of ten rounds, for reading that many
//! tokens and for answering so many questions with so many options each; ways take turns, so that other work on the
//! machine falls on all of them alike.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clef_head::{CrossAttention, Head, HeadFile, QuestionSpans, QuestionType, Reading};
use clef_llama::Device;
use clef_llama::gguf::Gguf;

const ROUNDS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, tokens, questions, options, threads] = arguments.as_slice() else {
        return Err("usage: answer MODEL TOKENS QUESTIONS OPTIONS THREADS".into());
    };
    let (tokens, questions, options): (usize, usize, usize) = (tokens.parse()?, questions.parse()?, options.parse()?);
    if questions * (1 + options) > tokens {
        return Err("each question and option takes a token at least".into());
    }
    let gguf = Arc::new(Gguf::open(Path::new(path))?);
    let mut head = Head::load(&HeadFile::of(&gguf)?, Arc::clone(&gguf), Device::cpu(), threads.parse()?)?;
    let hidden: Vec<f32> = (0..tokens * head.layout().hidden_width)
        .map(|index| (index.wrapping_mul(0x9e37_79b9) >> 8 & 0xffff) as f32 / 16384.0 - 2.0)
        .collect();
    let ids: Vec<i32> = (0..tokens).map(|index| (index * 7919 % 3000 + 10) as i32).collect();
    // Spans fill the end of the prompt, as they do in prompts.
    let span = 20.min(tokens / (questions * (1 + options)));
    let first = tokens - span * questions * (1 + options);
    let asked = |question: usize| {
        let at = |index: usize| {
            let start = first + span * (question * (1 + options) + index);
            start..start + span
        };
        QuestionSpans { kind: QuestionType::Choice, text: at(0), options: (1..=options).map(at).collect() }
    };
    let asked: Vec<QuestionSpans> = (0..questions).map(asked).collect();

    let ways = [CrossAttention::Projecting, CrossAttention::Absorbing, CrossAttention::Cheapest];
    let (mut read, mut answered) = (Duration::MAX, [Duration::MAX; 3]);
    let mut logits = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut reading = Reading::new(&head, tokens, asked.clone())?;
        reading.push(&mut head, &hidden)?;
        read = start.elapsed().min(read);
        for (index, way) in ways.into_iter().enumerate() {
            head.set_cross_attention(way);
            let start = Instant::now();
            logits[index] = reading.finish(&mut head, &ids)?.concat();
            answered[index] = start.elapsed().min(answered[index]);
        }
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let pairs = || logits[0].iter().zip(&logits[1]);
    let difference = pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!(
        "{tokens} tokens, {questions} x {options}: read {:.1} ms, projecting {:.1} ms, absorbing {:.1} ms, cheapest {:.1} ms; \
         logits differ by {difference:.1e}",
        milliseconds(read),
        milliseconds(answered[0]),
        milliseconds(answered[1]),
        milliseconds(answered[2]),
    );
    Ok(())
}
