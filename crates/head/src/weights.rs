//! The head's weights, placed on the backbone's device.

use std::sync::Arc;

use clef_llama::Device;
use clef_llama::gguf::{Gguf, TensorInfo};
use clef_llama::graph::{Compute, Store, StoreBuilder, Tensor};

use crate::attention::CrossAttention;
use crate::error::Result;
use crate::file::HeadFile;
use crate::layout::{Layout, invalid};

/// Nodes of the largest graph the head builds; see `network::chunk_rows` for what bounds it.
pub(crate) const MAX_NODES: usize = 1 << 15;

/// A loaded head and the queue it computes on. One thread at a time.
#[derive(Debug)]
pub struct Head {
    pub(crate) layout: Layout,
    pub(crate) weights: Store,
    pub(crate) compute: Compute,
    model: Arc<Gguf>,
    /// The table whose rows stand for tokens in the prior: `output.weight`, or the embeddings where that is missing.
    lexical: TensorInfo,
    cross_attention: CrossAttention,
}

impl Head {
    /// Loads a head onto `device`. Rows for option tokens are read from the backbone's file, `model`, as long as it lives.
    ///
    /// # Errors
    /// If the two files do not fit each other, or the device has no memory for the head.
    pub fn load(file: &HeadFile<'_>, model: Arc<Gguf>, device: Device, threads: u32) -> Result<Self> {
        let layout = file.layout().clone();
        let mut builder = StoreBuilder::default();
        for tensor in file.tensors() {
            builder.add(tensor.name.as_str(), tensor.shape.map(|length| length as usize), tensor.kind);
        }
        let lexical = lexical_table(&model, &layout)?.clone();
        let compute = Compute::new(device, threads, MAX_NODES)?;
        let mut weights = builder.build(&compute)?;
        for tensor in file.tensors() {
            weights.set(&tensor.name, &file.read(&tensor.name)?)?;
        }
        Ok(Self { layout, weights, compute, model, lexical, cross_attention: CrossAttention::default() })
    }

    /// Whether a head can be loaded beside the backbone of `model`, as far as files tell.
    ///
    /// # Errors
    /// As [`Head::load`], but for memory.
    pub fn check(file: &HeadFile<'_>, model: &Gguf) -> Result<()> {
        lexical_table(model, file.layout()).map(|_| ())
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
            self.model.dequantize_row(&self.lexical, token as usize, row)?;
            for (sum, value) in out.iter_mut().zip(row.iter()) {
                *sum += value;
            }
        }
        let share = 1.0 / tokens.len() as f32;
        out.iter_mut().for_each(|sum| *sum *= share);
        Ok(())
    }
}

fn lexical_table<'a>(gguf: &'a Gguf, layout: &Layout) -> Result<&'a TensorInfo> {
    gguf.tensor("output.weight")
        .or_else(|| gguf.tensor("token_embd.weight"))
        .filter(|table| table.kind.is_weight() && table.dimensions == 2)
        .filter(|table| table.shape[0] as usize == layout.hidden_width)
        .ok_or_else(|| invalid(gguf.path(), "no output.weight or token_embd.weight of the head's width"))
}

/// The weights by name, for building graphs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'s>(pub(crate) &'s Store);

impl<'s> Named<'s> {
    pub(crate) fn get(self, name: &str) -> Tensor<'s> {
        self.0.get(name).expect("the head's tensors were all loaded")
    }
}
