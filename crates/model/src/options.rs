//! How a model is opened.

use std::path::PathBuf;

use clef_llama::gguf::Override;
use clef_llama::{CacheType, ContextParams, Device, FlashAttention};

use crate::error::{Error, ErrorKind, Result};
use crate::kernels::Repack;
use crate::placement::Placement;

/// Tokens decoded at once where nothing else is asked for; `docs/performance.md` has the measurements.
const CPU_CHUNK: u32 = 256;
const GPU_CHUNK: u32 = 512;

/// How a model is opened. The defaults are those of the command line.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelOptions {
    /// The most tokens of a prompt, up to 67,108,864; 0 for what the model was trained with. Memory for their keys and
    /// values is taken at once.
    pub context_tokens: u32,
    /// Tokens decoded at once, 1 to 65,536; none to choose by the device. Larger chunks need larger compute buffers.
    pub chunk_tokens: Option<u32>,
    /// Prompts that can be read at once, 1 to 64, each in a memory of its own. One of them takes every prompt, the others
    /// short ones, which need not wait then for a long one; their memory is taken when it is first needed.
    pub parallel: u32,
    /// Host memory for states that were read, in bytes, so that later prompts go on from them; none for an eighth of the
    /// machine's, at most 2 GiB.
    pub cache_bytes: Option<u64>,
    /// CPU threads, 1 to 512; none for one per CPU or one per core, whichever reads faster.
    pub threads: Option<u32>,
    /// The file that holds the head: GGUF, or safetensors as its checkpoint ships it. None for the model's own.
    pub head: Option<PathBuf>,
    /// The projector, through which the model sees images and videos; none for a model of text only.
    pub projector: Option<PathBuf>,
    /// Whether the projector is placed on a GPU. Ignored without one.
    pub projector_offload: bool,
    /// Smaller images are enlarged to so many tokens, 1 to 1,048,576; none for the reference's 64.
    pub image_min_tokens: Option<u32>,
    /// Larger images are reduced to so many tokens; none for the reference's 16,384.
    pub image_max_tokens: Option<u32>,
    /// Layers placed on a GPU; negative for all. Ignored without one.
    pub gpu_layers: i32,
    /// Where the model is put.
    pub placement: Placement,
    /// Metadata in place of the file's; checked as the file's own is.
    pub overrides: Vec<Override>,
    /// Whether a model that needs more memory than is available is refused before it is loaded.
    pub must_fit: bool,
    /// When attention runs fused.
    pub flash_attention: FlashAttention,
    /// Element type of cached keys; none for 16-bit floats, or 32-bit ones where flash attention is off.
    pub cache_keys: Option<CacheType>,
    /// Element type of cached values, as for keys.
    pub cache_values: Option<CacheType>,
    /// Whether weights are rewritten into other layouts.
    pub repack: Repack,
    /// Where what was measured is remembered, so that the same is chosen at the next start; none to measure each time.
    pub kernels_file: Option<PathBuf>,
    /// Whether the values of the weights are checked while loading.
    pub check_tensors: bool,
    /// Whether prompts name questions `q1`, `q2`, ... instead of by their ids.
    pub neutral_ids: bool,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            context_tokens: 16_384,
            chunk_tokens: None,
            parallel: 2,
            cache_bytes: None,
            threads: None,
            head: None,
            projector: None,
            projector_offload: true,
            image_min_tokens: None,
            image_max_tokens: None,
            gpu_layers: -1,
            placement: Placement::default(),
            overrides: Vec::new(),
            must_fit: true,
            flash_attention: FlashAttention::Auto,
            cache_keys: None,
            cache_values: None,
            repack: Repack::Measure,
            kernels_file: None,
            check_tensors: false,
            neutral_ids: false,
        }
    }
}

impl ModelOptions {
    /// The cache types that are used. Without flash attention there is no 16-bit arithmetic left but the cache's, and
    /// who asks for that wants the reference's numbers.
    pub fn cache_types(&self) -> (CacheType, CacheType) {
        let default = if self.flash_attention == FlashAttention::Off { CacheType::F32 } else { CacheType::F16 };
        (self.cache_keys.unwrap_or(default), self.cache_values.unwrap_or(default))
    }

    /// Tokens decoded at once. On a CPU more than this gain little: the weights are read often enough to be in reach.
    pub fn chunk_tokens(&self) -> u32 {
        let on_gpu = || self.gpu_layers != 0 && self.placement.gpus().is_ok_and(|gpus| !gpus.is_empty());
        self.chunk_tokens.unwrap_or_else(|| if on_gpu() { GPU_CHUNK } else { CPU_CHUNK }).min(self.context_tokens)
    }

    /// Sees that the options go together, as far as that takes no model.
    ///
    /// # Errors
    /// Of kind [`InvalidOption`](ErrorKind::InvalidOption).
    pub(crate) fn check(&self) -> Result<()> {
        let refused = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        let (_, values) = self.cache_types();
        if self.flash_attention == FlashAttention::Off && values.bits() < 16.0 {
            let named = CacheType::NAMES.iter().find(|(_, kind)| *kind == values).map_or("?", |(name, _)| name);
            return refused(format!("cached values of type {named} need fused attention, which is off"));
        }
        if let (Some(least), Some(most)) = (self.image_min_tokens, self.image_max_tokens)
            && least > most
        {
            return refused(format!("an image cannot have at least {least} tokens and at most {most}"));
        }
        Ok(())
    }

    /// CPU threads as far as nothing was measured: what is asked for, else one per CPU.
    pub fn threads(&self) -> u32 {
        let all = || std::thread::available_parallelism().map_or(1, |count| count.get().min(512) as u32);
        self.threads.unwrap_or_else(all)
    }

    /// Host memory for states that were read.
    pub fn cache_bytes(&self) -> usize {
        let default = || (Device::cpu().memory().1 as u64 / 8).min(2 << 30);
        usize::try_from(self.cache_bytes.unwrap_or_else(default)).unwrap_or(usize::MAX)
    }

    pub(crate) fn context_params(&self) -> ContextParams {
        let (keys, values) = self.cache_types();
        ContextParams {
            cells: self.context_tokens,
            chunk: self.chunk_tokens(),
            sequences: 1,
            threads: self.threads(),
            flash_attention: self.flash_attention,
            keys,
            values,
        }
    }

    /// The same with everything that depends on the model filled in.
    pub(crate) fn resolved(&self, trained_context: Option<u32>) -> Self {
        let mut options = self.clone();
        if options.context_tokens == 0 {
            options.context_tokens = trained_context.unwrap_or(Self::default().context_tokens);
        }
        options
    }
}
