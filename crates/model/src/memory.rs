//! What a model takes, computed from its header before anything is loaded.

use clef_llama::{Hyperparameters, TowerShape};

use crate::evaluate::SIDE_TOKENS;
use crate::options::ModelOptions;

/// One line of a [`MemoryEstimate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryItem {
    /// What it is for.
    pub name: &'static str,
    /// How the number comes about.
    pub basis: String,
    /// Bytes.
    pub bytes: u64,
}

/// Memory by purpose. Weights, cache and states are exact; compute buffers are an upper estimate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// The parts.
    pub items: Vec<MemoryItem>,
    /// What is taken only as requests come, at most.
    pub later: Vec<MemoryItem>,
}

impl MemoryEstimate {
    pub(crate) fn new(
        h: &Hyperparameters,
        backbone_bytes: u64,
        head_bytes: u64,
        head_width: Option<u64>,
        projector: Option<(&TowerShape, u64)>,
        options: &ModelOptions,
    ) -> Self {
        let (context, chunk) = (u64::from(options.context_tokens), u64::from(options.chunk_tokens()));
        let (keys, values) = options.cache_types();
        let per_token = h.kv_bytes_per_token(keys.bits(), values.bits());
        // llama.cpp rounds cells up to a multiple of 256.
        let cells = context.next_multiple_of(256);
        let mut items = vec![
            MemoryItem {
                name: "backbone weights",
                basis: "tensors that are loaded; output.weight stays in the file".into(),
                bytes: backbone_bytes,
            },
            MemoryItem { name: "head weights", basis: "on the device of the last layers".into(), bytes: head_bytes },
            MemoryItem {
                name: "keys and values",
                basis: format!("{per_token} bytes per token for {cells} cells"),
                bytes: per_token * cells,
            },
            MemoryItem {
                name: "recurrent state",
                basis: "one sequence".into(),
                bytes: h.recurrent_bytes_per_sequence(),
            },
            MemoryItem {
                name: "compute buffers",
                basis: format!("at most, for chunks of {chunk} tokens; no logits are held"),
                bytes: compute_bytes(h, chunk, cells),
            },
            MemoryItem {
                name: "fixed prefix",
                basis: "how every prompt starts, held on the host".into(),
                bytes: h.recurrent_bytes_per_sequence() + per_token * PREFIX_TOKENS,
            },
        ];
        if let Some((_, projector_bytes)) = projector {
            items.push(MemoryItem {
                name: "projector weights",
                basis: "through which images and videos are seen".into(),
                bytes: projector_bytes,
            });
        }
        if let Some(width) = head_width {
            items.push(MemoryItem {
                name: "head's memory",
                basis: format!("{} bytes per token of the longest prompt, while it is answered", 16 * width),
                bytes: 16 * width * context,
            });
        }
        let mut later = later(h, per_token, options);
        later.extend(projector.map(|(shape, _)| largest_image(shape, options)));
        Self { items, later }
    }

    /// The same of a model that writes text, with its output matrix and without a head.
    pub(crate) fn for_writing(mut self, output_bytes: u64) -> Self {
        self.items.retain(|item| !["head weights", "head's memory", "fixed prefix"].contains(&item.name));
        for item in self.items.iter_mut().filter(|item| item.name == "backbone weights") {
            item.bytes += output_bytes;
        }
        self
    }

    /// The sum of what is taken in any case.
    pub fn total(&self) -> u64 {
        self.items.iter().map(|item| item.bytes).sum()
    }

    /// The sum of what is sure to be taken before the first request: without what is only bounded, and without what only
    /// a prompt as long as the context takes.
    pub(crate) fn at_start(&self) -> u64 {
        let unsure = self.of(&["compute buffers", "head's memory"]);
        self.total() - unsure
    }

    /// The sum of what is taken for some purposes.
    pub(crate) fn of(&self, names: &[&str]) -> u64 {
        self.items.iter().filter(|item| names.contains(&item.name)).map(|item| item.bytes).sum()
    }
}

/// More than the fixed prefix has in any vocabulary that is known.
const PREFIX_TOKENS: u64 = 64;

fn later(h: &Hyperparameters, per_token: u64, options: &ModelOptions) -> Vec<MemoryItem> {
    let mut later = vec![MemoryItem {
        name: "held states",
        basis: format!(
            "at most, on the host: {} bytes a state and {per_token} per token of keys and values",
            h.recurrent_bytes_per_sequence()
        ),
        bytes: options.cache_bytes() as u64,
    }];
    let lanes = u64::from(options.parallel.saturating_sub(1));
    if lanes > 0 {
        let cells = u64::from(options.context_tokens.min(SIDE_TOKENS)).next_multiple_of(256);
        let compute = compute_bytes(h, u64::from(options.chunk_tokens()), cells);
        later.push(MemoryItem {
            name: "side lanes",
            basis: format!(
                "{lanes}, for prompts of {cells} tokens beside a long one, each from when it is first needed"
            ),
            bytes: lanes * (per_token * cells + h.recurrent_bytes_per_sequence() + compute),
        });
    }
    later
}

/// What seeing the largest image takes that fits the context, while it is seen.
fn largest_image(shape: &TowerShape, options: &ModelOptions) -> MemoryItem {
    let tokens = u64::from(options.image_max_tokens.unwrap_or(REFERENCE_IMAGE_TOKENS).min(options.context_tokens));
    let patches = tokens * u64::from(shape.merge).pow(2);
    let pixels = patches * u64::from(shape.patch).pow(2);
    let activations = 4 * u64::from(3 * shape.width + 2 * shape.feed_forward.max(3 * shape.width));
    MemoryItem {
        name: "an image at work",
        basis: format!("at most, for one of {tokens} tokens: {PIXEL_COPIES} bytes a pixel, {activations} a patch"),
        bytes: pixels * PIXEL_COPIES + patches * activations,
    }
}

/// The most tokens that the reference gives an image.
const REFERENCE_IMAGE_TOKENS: u32 = 16_384;

/// Bytes for each pixel that is on its way into the vision tower: as bytes here and there, and as floats.
const PIXEL_COPIES: u64 = 36;

/// The widest set of activations alive at once, in 32-bit floats, and the attention mask in 16 bits.
fn compute_bytes(h: &Hyperparameters, chunk: u64, cells: u64) -> u64 {
    let (width, inner) = (u64::from(h.width), u64::from(h.feed_forward));
    let attention = 3 * u64::from(h.heads * h.head_width);
    let delta = 4 * u64::from(h.value_heads * h.state_width) + 4 * u64::from(h.key_heads * h.state_width);
    let widest = 3 * width + (2 * inner).max(attention + 2 * width).max(delta + 2 * width);
    chunk * (4 * widest + 2 * cells)
}
