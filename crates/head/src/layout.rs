//! The numbers that shape a head, and its optional temperatures.

use clef_llama::gguf::{Gguf, Value};

use crate::error::{Error, ErrorKind, Result};

/// The three types of questions, numbered as in the checkpoint's type embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's")]
pub enum QuestionType {
    Noul = 0,
    Choice = 1,
    Score = 2,
}

impl QuestionType {
    const NAMES: [(&'static str, Self); 3] = [("noul", Self::Noul), ("choice", Self::Choice), ("score", Self::Score)];
}

/// The numbers that shape a head.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Width of the backbone's hidden states.
    pub hidden_width: usize,
    /// Width of the head's own vectors.
    pub width: usize,
    /// Inner width of its feed-forward layers.
    pub feed_forward: usize,
    /// Attention heads.
    pub heads: usize,
    /// Blocks in which options read the prompt, one by one.
    pub routing_blocks: usize,
    /// Blocks in which questions read each other and the prompt.
    pub joint_blocks: usize,
    /// Epsilon of its layer norms.
    pub epsilon: f32,
    /// Divisors of the logits.
    pub temperatures: Temperatures,
}

impl Layout {
    /// Reads the numbers from a file's metadata and the widths from its tensors.
    pub(crate) fn read(gguf: &Gguf) -> Result<Self> {
        let (Some(memory), Some(feed_forward)) =
            (gguf.tensor("decision.proj_memory.weight"), gguf.tensor("dec.blk.0.ffn_up.weight"))
        else {
            return Err(Error::new(
                ErrorKind::Missing,
                format_args!(
                    "{} holds no decision head (no tensor decision.proj_memory.weight): it is a plain backbone",
                    gguf.path().display()
                ),
            ));
        };
        let layout = Self {
            hidden_width: memory.shape[0] as usize,
            width: memory.shape[1] as usize,
            feed_forward: feed_forward.shape[1] as usize,
            heads: number(gguf, "clef.decision.head_count", 1, 1 << 10)?,
            routing_blocks: number(gguf, "clef.decision.routing_block_count", 0, 64)?,
            joint_blocks: number(gguf, "clef.decision.block_count", 0, 64)?,
            epsilon: match gguf.get("clef.attention.layer_norm_epsilon") {
                Some(Value::Float(epsilon)) if (1e-12..=1e-1).contains(&epsilon) => epsilon as f32,
                _ => return Err(invalid(gguf, "clef.attention.layer_norm_epsilon must be a float from 1e-12 to 0.1")),
            },
            temperatures: Temperatures::read(gguf)?,
        };
        if layout.routing_blocks + layout.joint_blocks == 0 || !layout.width.is_multiple_of(layout.heads) {
            let what = format!(
                "a head of width {} with {} attention heads and {} + {} blocks",
                layout.width, layout.heads, layout.routing_blocks, layout.joint_blocks
            );
            return Err(invalid(gguf, what));
        }
        Ok(layout)
    }
}

pub(crate) fn invalid(gguf: &Gguf, message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidFile, format_args!("{}: {message}", gguf.path().display()))
}

fn number(gguf: &Gguf, key: &str, least: u64, most: u64) -> Result<usize> {
    gguf.get(key)
        .and_then(Value::as_u64)
        .filter(|value| (least..=most).contains(value))
        .map(|value| value as usize)
        .ok_or_else(|| invalid(gguf, format_args!("{key} must be a number from {least} to {most}")))
}

/// Beyond these every answer is a toss-up or certain, and logits may leave the range of 32-bit floats.
const TEMPERATURES: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// Divisors of the logits by question type and number of options; 1 where the file states none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Temperatures(Vec<(QuestionType, Option<Bucket>, f32)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    name: &'static str,
    least: usize,
    most: usize,
}

const BUCKETS: [Bucket; 4] = [
    Bucket { name: "2", least: 2, most: 2 },
    Bucket { name: "3_5", least: 3, most: 5 },
    Bucket { name: "6_10", least: 6, most: 10 },
    Bucket { name: "11", least: 11, most: usize::MAX },
];

impl Temperatures {
    fn read(gguf: &Gguf) -> Result<Self> {
        let mut all = Vec::new();
        for (name, kind) in QuestionType::NAMES {
            let general = format!("clef.decision.temperature.{name}");
            let keys = BUCKETS.iter().map(|&bucket| (format!("{general}.{}", bucket.name), Some(bucket)));
            for (key, bucket) in keys.chain([(general.clone(), None)]) {
                match gguf.get(&key) {
                    None => {}
                    Some(Value::Float(value)) if TEMPERATURES.contains(&value) => {
                        all.push((kind, bucket, value as f32));
                    }
                    Some(_) => {
                        let (least, most) = (TEMPERATURES.start(), TEMPERATURES.end());
                        return Err(invalid(gguf, format_args!("{key} must be a float from {least} to {most}")));
                    }
                }
            }
        }
        Ok(Self(all))
    }

    /// What the logits of a question are divided by; a value for its number of options goes before the general one.
    pub fn of(&self, kind: QuestionType, options: usize) -> f32 {
        self.0
            .iter()
            .filter(|(of, _, _)| *of == kind)
            .find(|(_, bucket, _)| bucket.is_none_or(|bucket| (bucket.least..=bucket.most).contains(&options)))
            .map_or(1.0, |&(_, _, value)| value)
    }

    /// Whether the file states none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
