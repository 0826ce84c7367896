//! Opening a model.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clef_encoder::EncoderOptions;
use clef_head::Head;
use clef_llama::gguf::Gguf;
use clef_llama::{CacheType, Context, ContextParams, FlashAttention, Model, ModelParams};

use crate::encode::RecordEncoder;
use crate::error::{Error, ErrorKind, Result};
use crate::evaluate::Evaluator;
use crate::inspect::Inspection;
use crate::text::Text;

/// How a model is opened. The defaults are those of the command line.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelOptions {
    /// The most tokens of a prompt, up to 67,108,864; 0 for what the model was trained with. Memory for their keys and
    /// values is taken at once.
    pub context_tokens: u32,
    /// Tokens decoded at once, 1 to 65,536. Larger chunks need larger compute buffers.
    pub chunk_tokens: u32,
    /// CPU threads, 1 to 512.
    pub threads: u32,
    /// Layers placed on a GPU; negative for all. Ignored without one.
    pub gpu_layers: i32,
    /// When attention runs fused.
    pub flash_attention: FlashAttention,
    /// Element type of cached keys; none for 16-bit floats, or 32-bit ones where flash attention is off.
    pub cache_keys: Option<CacheType>,
    /// Element type of cached values, as for keys.
    pub cache_values: Option<CacheType>,
    /// Whether weights are rewritten into layouts made for generating text.
    pub repack: bool,
    /// Whether the values of the weights are checked while loading.
    pub check_tensors: bool,
    /// Whether prompts name questions `q1`, `q2`, ... instead of by their ids.
    pub neutral_ids: bool,
}

impl Default for ModelOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(512) as u32);
        Self {
            context_tokens: 16_384,
            chunk_tokens: 512,
            threads,
            gpu_layers: -1,
            flash_attention: FlashAttention::Auto,
            cache_keys: None,
            cache_values: None,
            repack: false,
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

    /// The same with everything that depends on the model filled in.
    pub(crate) fn resolved(&self, trained_context: Option<u32>) -> Self {
        let mut options = self.clone();
        if options.context_tokens == 0 {
            options.context_tokens = trained_context.unwrap_or(Self::default().context_tokens);
        }
        options
    }
}

/// A loaded model: the parts of one file, known to fit each other.
#[derive(Debug)]
pub struct Bundle {
    encoder: RecordEncoder,
    evaluator: Evaluator,
    inspection: Inspection,
    device_name: String,
}

impl Bundle {
    /// Opens a `clef` GGUF file. `progress` is told bytes read and bytes in all, and stops the load by returning false.
    ///
    /// Everything that can be checked is checked before weights are read.
    ///
    /// # Errors
    /// If the file cannot decide, its parts contradict each other, options make no sense, or memory runs out.
    pub fn open(path: &Path, options: &ModelOptions, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Self> {
        let start = Instant::now();
        let gguf = Arc::new(Gguf::open(path)?);
        let inspection = Inspection::of(&gguf, options)?;
        let options = &options.resolved(inspection.backbone.as_ref().map(|backbone| backbone.trained_context));
        if let Some(missing) = inspection.missing.first() {
            return Err(Error::new(ErrorKind::Unsupported, missing));
        }
        let params = ModelParams {
            gpu_layers: options.gpu_layers,
            repack: options.repack,
            check_tensors: options.check_tensors,
        };
        let model = Model::load(&gguf, &params, progress)?;
        let context = Context::new(&model, &context_params(options))?;
        let head = Head::load(Arc::clone(&gguf), model.output_device(), options.threads)?;
        let encoder_options =
            EncoderOptions { context_tokens: options.context_tokens as usize, neutral_ids: options.neutral_ids };
        let encoder = RecordEncoder::new(Arc::clone(model.vocabulary()), encoder_options)?;
        if let Some(trained) = inspection.backbone.as_ref().map(|backbone| backbone.trained_context)
            && options.context_tokens > trained
        {
            tracing::warn!("the context is {} tokens, the model was trained with {trained}", options.context_tokens);
        }
        tracing::info!(
            model = %path.display(),
            quantization = inspection.quantization,
            weights_mib = (model.weight_bytes() + head.weight_bytes() as u64) >> 20,
            context_tokens = options.context_tokens,
            head_device = model.output_device().name(),
            seconds = start.elapsed().as_secs_f32(),
            "model loaded; its weights are in memory of our own, not mapped from the file"
        );
        let device_name = model.output_device().name();
        Ok(Self { encoder, evaluator: Evaluator::new(context, head), inspection, device_name })
    }

    /// What the file says about itself.
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }

    /// The encoder.
    pub fn encoder(&self) -> &RecordEncoder {
        &self.encoder
    }

    /// The device that holds the head and the layers before it, such as `CPU` or `CUDA0`.
    pub fn device_name(&self) -> &str {
        &self.device_name
    }

    /// The vocabulary.
    pub fn text(&self) -> Text {
        self.encoder.text()
    }

    /// The evaluator, for callers that need no engine.
    pub fn evaluator(&mut self) -> &mut Evaluator {
        &mut self.evaluator
    }

    /// The two halves that an engine is started with.
    pub fn into_parts(self) -> (RecordEncoder, Evaluator, Inspection) {
        (self.encoder, self.evaluator, self.inspection)
    }
}

fn context_params(options: &ModelOptions) -> ContextParams {
    let (keys, values) = options.cache_types();
    ContextParams {
        cells: options.context_tokens,
        chunk: options.chunk_tokens.min(options.context_tokens),
        // Requests are read one at a time into one sequence; each more would cost its recurrent state from the start.
        sequences: 1,
        threads: options.threads,
        flash_attention: options.flash_attention,
        keys,
        values,
    }
}
