//! The numbers that shape a head, and its optional temperatures.

use std::path::Path;

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
    /// Reads the numbers from a file's metadata and the widths from its tensors, whose names begin with `prefix`.
    pub(crate) fn read(gguf: &Gguf, prefix: &str) -> Result<Self> {
        let tensor = |name: &str| gguf.tensor(&format!("{prefix}{name}"));
        let (Some(memory), Some(feed_forward)) = (tensor(DEFINING), tensor("dec.blk.0.ffn_up.weight")) else {
            return Err(Error::new(
                ErrorKind::Missing,
                format_args!("{} holds no decision head (no tensor {DEFINING})", gguf.path().display()),
            ));
        };
        let layout = Self {
            hidden_width: memory.shape[0] as usize,
            width: memory.shape[1] as usize,
            feed_forward: feed_forward.shape[1] as usize,
            heads: number(gguf, "decision.head_count", 1, 1 << 10)?,
            routing_blocks: number(gguf, "decision.routing_block_count", 0, MAX_BLOCKS)?,
            joint_blocks: number(gguf, "decision.block_count", 0, MAX_BLOCKS)?,
            epsilon: match value(gguf, EPSILON) {
                Some(Value::Float(epsilon)) if (1e-12..=1e-1).contains(&epsilon) => epsilon as f32,
                _ => {
                    let what = format_args!("clef.{EPSILON} must be a float from 1e-12 to 0.1");
                    return Err(invalid(gguf.path(), what));
                }
            },
            temperatures: Temperatures::read(gguf)?,
        };
        layout.checked(gguf.path())
    }

    /// Itself, if its numbers go together.
    pub(crate) fn checked(self, path: &Path) -> Result<Self> {
        if self.routing_blocks + self.joint_blocks == 0 || !self.width.is_multiple_of(self.heads) {
            let what = match self.routing_blocks + self.joint_blocks {
                0 => "the head has no blocks".to_owned(),
                _ => format!("the head's width {} is not divisible by its {} attention heads", self.width, self.heads),
            };
            return Err(invalid(path, what));
        }
        Ok(self)
    }
}

/// The tensor without which there is no head to speak of.
pub(crate) const DEFINING: &str = "decision.proj_memory.weight";
/// The key of the epsilon, as [`value`] takes it.
pub(crate) const EPSILON: &str = "attention.layer_norm_epsilon";
/// The most blocks of either kind.
pub(crate) const MAX_BLOCKS: u64 = 64;

pub(crate) fn invalid(path: &Path, message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidFile, format_args!("{}: {message}", path.display()))
}

/// What the keys of a head may begin with, in the order in which they are looked for: `clef` files and files of heads
/// alone say `clef.`, others may say their own architecture, or nothing.
pub(crate) fn families(gguf: &Gguf) -> [String; 3] {
    let own = gguf.get_str("general.architecture").unwrap_or_default();
    ["clef.".to_owned(), format!("{own}."), String::new()]
}

/// The value of a key of the head, such as `decision.block_count`.
fn value<'a>(gguf: &'a Gguf, key: &str) -> Option<Value<'a>> {
    families(gguf).iter().find_map(|family| gguf.get(&format!("{family}{key}")))
}

fn number(gguf: &Gguf, key: &str, least: u64, most: u64) -> Result<usize> {
    let found = value(gguf, key).ok_or_else(|| invalid(gguf.path(), format_args!("the key clef.{key} is missing")))?;
    found
        .as_u64()
        .filter(|value| (least..=most).contains(value))
        .map(|value| value as usize)
        .ok_or_else(|| invalid(gguf.path(), format_args!("clef.{key} must be a number from {least} to {most}")))
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
            let general = format!("decision.temperature.{name}");
            let keys = BUCKETS.iter().map(|&bucket| (format!("{general}.{}", bucket.name), Some(bucket)));
            for (key, bucket) in keys.chain([(general.clone(), None)]) {
                match value(gguf, &key) {
                    None => {}
                    Some(Value::Float(value)) if TEMPERATURES.contains(&value) => {
                        all.push((kind, bucket, value as f32));
                    }
                    Some(_) => {
                        let (least, most) = (TEMPERATURES.start(), TEMPERATURES.end());
                        let what = format_args!("clef.{key} must be a float from {least} to {most}");
                        return Err(invalid(gguf.path(), what));
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
