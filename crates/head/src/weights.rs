//! The head's weights: their names and shapes, checked and placed on the backbone's device.

use std::sync::Arc;

use clef_llama::Device;
use clef_llama::gguf::{Gguf, TensorInfo, TensorType};
use clef_llama::graph::{Compute, Store, StoreBuilder, Tensor};

use crate::attention::CrossAttention;
use crate::error::Result;
use crate::layout::{Layout, invalid};

/// Nodes of the largest graph the head builds; see `network::chunk_rows` for what bounds it.
pub(crate) const MAX_NODES: usize = 1 << 15;

/// A loaded head and the queue it computes on. One thread at a time.
#[derive(Debug)]
pub struct Head {
    pub(crate) layout: Layout,
    pub(crate) weights: Store,
    pub(crate) compute: Compute,
    gguf: Arc<Gguf>,
    /// The table whose rows stand for tokens in the prior: `output.weight`, or the embeddings where that is missing.
    lexical: TensorInfo,
    cross_attention: CrossAttention,
}

impl Head {
    /// Loads the head of a `clef` file onto `device`.
    ///
    /// # Errors
    /// If the file holds no head, or one whose parts do not fit each other, or the device has no memory for it.
    pub fn load(gguf: Arc<Gguf>, device: Device, threads: u32) -> Result<Self> {
        let (layout, found) = checked(&gguf)?;
        let mut builder = StoreBuilder::default();
        for tensor in &found {
            builder.add(tensor.name.as_str(), tensor.shape.map(|length| length as usize), tensor.kind);
        }
        let lexical = lexical_table(&gguf, &layout)?.clone();
        let compute = Compute::new(device, threads, MAX_NODES)?;
        let mut weights = builder.build(&compute)?;
        for tensor in found {
            weights.set(&tensor.name, &gguf.read_data(tensor)?)?;
        }
        Ok(Self { layout, weights, compute, gguf, lexical, cross_attention: CrossAttention::default() })
    }

    /// Reads a file's head description without loading it: its numbers and the bytes of its weights.
    ///
    /// # Errors
    /// As [`Head::load`], but for memory.
    pub fn check(gguf: &Gguf) -> Result<(Layout, u64)> {
        let (layout, tensors) = checked(gguf)?;
        lexical_table(gguf, &layout)?;
        Ok((layout, tensors.iter().map(|tensor| tensor.bytes).sum()))
    }

    /// The numbers that shape it.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of its weights on the device.
    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes()
    }

    /// Tokens that the lexical table knows.
    pub fn vocabulary(&self) -> usize {
        self.lexical.shape[1] as usize
    }

    /// Chooses how options and questions read the prompt: for measurements.
    pub fn set_cross_attention(&mut self, way: CrossAttention) {
        self.cross_attention = way;
    }

    pub(crate) fn cross_attention(&self) -> CrossAttention {
        // Of ggml's devices only the CPU has every operation of the absorbing way for every type of weights; operations
        // that a device lacks would carry weights and memory to the CPU for each answer.
        if self.compute.device() == Device::cpu() { self.cross_attention } else { CrossAttention::Projecting }
    }

    /// The mean of the lexical table's rows of `tokens`, in 32-bit floats; rows are read from the mapped file.
    pub(crate) fn lexical_mean(&self, tokens: &[i32], row: &mut [f32], out: &mut [f32]) -> Result<()> {
        out.fill(0.0);
        for &token in tokens {
            self.gguf.dequantize_row(&self.lexical, token as usize, row)?;
            for (sum, value) in out.iter_mut().zip(row.iter()) {
                *sum += value;
            }
        }
        let share = 1.0 / tokens.len() as f32;
        out.iter_mut().for_each(|sum| *sum *= share);
        Ok(())
    }
}

/// The layout and all tensors that it implies, each with its shape and a type that graphs can use.
fn checked(gguf: &Gguf) -> Result<(Layout, Vec<&TensorInfo>)> {
    let layout = Layout::read(gguf)?;
    let mut found = Vec::new();
    for (name, shape, plain) in expected_tensors(&layout) {
        let tensor = gguf.tensor(&name).ok_or_else(|| invalid(gguf, format_args!("the tensor {name} is missing")))?;
        let mut full = [1; 4];
        full[..shape.len()].copy_from_slice(&shape);
        if tensor.shape.map(|length| length as usize) != full {
            let what = format!("the tensor {name} has the shape {:?}, {full:?} is expected", tensor.shape);
            return Err(invalid(gguf, what));
        }
        if (plain && tensor.kind != TensorType::F32) || !tensor.kind.is_weight() {
            return Err(invalid(gguf, format_args!("the tensor {name} has the type {:?}", tensor.kind)));
        }
        found.push(tensor);
    }
    Ok((layout, found))
}

fn lexical_table<'a>(gguf: &'a Gguf, layout: &Layout) -> Result<&'a TensorInfo> {
    gguf.tensor("output.weight")
        .or_else(|| gguf.tensor("token_embd.weight"))
        .filter(|table| table.kind.is_weight() && table.dimensions == 2)
        .filter(|table| table.shape[0] as usize == layout.hidden_width)
        .ok_or_else(|| invalid(gguf, "no output.weight or token_embd.weight of the head's width"))
}

/// The weights by name, for building graphs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'s>(pub(crate) &'s Store);

impl<'s> Named<'s> {
    pub(crate) fn get(self, name: &str) -> Tensor<'s> {
        self.0.get(name).expect("the head's tensors were all loaded")
    }
}

/// Name, shape, and whether it must be of 32-bit floats, of every tensor of the head.
fn expected_tensors(layout: &Layout) -> Vec<(String, Vec<usize>, bool)> {
    let (hidden, width, inner) = (layout.hidden_width, layout.width, layout.feed_forward);
    let mut all = Vec::new();
    let mut matrix = |name: String, from: usize, to: usize| all.push((name, vec![from, to], false));
    for name in ["memory", "question", "option_question", "global", "option_context", "option_lexical"] {
        matrix(format!("decision.proj_{name}.weight"), hidden, width);
    }
    matrix("decision.scorer.weight".into(), 4 * width, width);
    matrix("decision.scorer_out.weight".into(), width, 1);
    matrix("token_types.weight".into(), width, 3);
    let blocks = layout.routing_blocks + layout.joint_blocks;
    for block in 0..blocks {
        let attentions: &[&str] = if block < layout.routing_blocks { &["cross_attn"] } else { &["cross_attn", "attn"] };
        for attention in attentions {
            for part in ["q", "k", "v", "o"] {
                matrix(format!("dec.blk.{block}.{attention}_{part}.weight"), width, width);
            }
        }
        matrix(format!("dec.blk.{block}.ffn_up.weight"), width, inner);
        matrix(format!("dec.blk.{block}.ffn_down.weight"), inner, width);
    }

    let mut vector = |name: String, length: usize| all.push((name, vec![length], true));
    let mut norm = |name: String, length: usize| {
        vector(format!("{name}.weight"), length);
        vector(format!("{name}.bias"), length);
    };
    norm("decision.hidden_norm".into(), hidden);
    for name in ["option_summary_norm", "field_norm", "option_norm"] {
        norm(format!("decision.{name}"), width);
    }
    for block in 0..blocks {
        norm(format!("dec.blk.{block}.cross_attn_norm"), width);
        norm(format!("dec.blk.{block}.ffn_norm"), width);
        let own = if block < layout.routing_blocks { "cross_attn_norm_kv" } else { "attn_norm" };
        norm(format!("dec.blk.{block}.{own}"), width);
    }
    vector("decision.scales".into(), 3);
    vector("decision.scorer.bias".into(), width);
    vector("decision.scorer_out.bias".into(), 1);
    for block in 0..blocks {
        let attentions: &[&str] = if block < layout.routing_blocks { &["cross_attn"] } else { &["cross_attn", "attn"] };
        for attention in attentions {
            for part in ["q", "k", "v", "o"] {
                vector(format!("dec.blk.{block}.{attention}_{part}.bias"), width);
            }
        }
        vector(format!("dec.blk.{block}.ffn_up.bias"), inner);
        vector(format!("dec.blk.{block}.ffn_down.bias"), width);
    }
    all
}
