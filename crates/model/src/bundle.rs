//! Opening a model.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clef_encoder::EncoderOptions;
use clef_head::Head;
use clef_llama::gguf::Gguf;
use clef_llama::{Device, DeviceKind, Model, ModelParams, Projector, Vision, VisionParams, devices};

use crate::encode::RecordEncoder;
use crate::error::{Error, ErrorKind, Result};
use crate::evaluate::{Evaluator, Parts};
use crate::inspect::Inspection;
use crate::kernels::{self, Kernels};
use crate::media::Gallery;
use crate::options::ModelOptions;
use crate::text::Text;

/// A loaded model: the parts of one file, known to fit each other.
#[derive(Debug)]
pub struct Bundle {
    encoder: RecordEncoder,
    evaluator: Evaluator,
    inspection: Inspection,
    kernels: Kernels,
    device_name: String,
}

impl Bundle {
    /// Opens a `clef` GGUF file, and the projector that the options name beside it. `progress` is told bytes read and bytes in all, and stops the load by returning false.
    ///
    /// Everything that can be checked is checked before weights are read.
    ///
    /// # Errors
    /// If the file cannot decide, its parts contradict each other, options make no sense, or memory runs out.
    pub fn open(path: &Path, options: &ModelOptions, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Self> {
        let start = Instant::now();
        let gguf = Arc::new(Gguf::open(path)?);
        let inspection = Inspection::of(&gguf, options)?;
        let mut options = options.resolved(inspection.backbone.as_ref().map(|backbone| backbone.trained_context));
        if let Some(missing) = inspection.missing.first() {
            return Err(Error::new(ErrorKind::Unsupported, missing));
        }
        let projector_file = options.projector.as_deref().map(Gguf::open).transpose()?;
        let projector = projector_file.as_ref().map(Projector::new).transpose()?;
        let gallery = projector.as_ref().map(|projector| Gallery::new(projector.shape(), &options)).transpose()?;
        let layers = inspection.backbone.as_ref().map_or(0, |backbone| backbone.layers);
        let kernels = kernels::choose(&gguf, layers, &options);
        options.threads = Some(kernels.threads);
        let model = Model::load(&gguf, &model_params(&options, kernels), progress)?;
        let head = Head::load(Arc::clone(&gguf), model.output_device(), kernels.threads)?;
        let encoder_options =
            EncoderOptions { context_tokens: options.context_tokens as usize, neutral_ids: options.neutral_ids };
        let encoder = RecordEncoder::new(Arc::clone(model.vocabulary()), encoder_options, gallery)?;
        let vision = projector.as_ref().map(|projector| open_vision(projector, &model, &options)).transpose()?;
        let device_name = model.output_device().name();
        let weight_bytes = model.weight_bytes() + head.weight_bytes() as u64;
        let (lanes, cache_bytes) = (options.parallel as usize, options.cache_bytes());
        let parts = Parts { gguf, model, head, vision };
        let evaluator = Evaluator::new(parts, options.context_params(), encoder.prefix(), lanes, cache_bytes)?;
        if let Some(trained) = inspection.backbone.as_ref().map(|backbone| backbone.trained_context)
            && options.context_tokens > trained
        {
            tracing::warn!("the context is {} tokens, the model was trained with {trained}", options.context_tokens);
        }
        tracing::info!(
            model = %path.display(),
            quantization = inspection.quantization,
            weights_mib = weight_bytes >> 20,
            context_tokens = options.context_tokens,
            head_device = device_name,
            seconds = start.elapsed().as_secs_f32(),
            "model loaded; its weights are in memory of our own, not mapped from the file"
        );
        Ok(Self { encoder, evaluator, inspection, kernels, device_name })
    }

    /// What the model's file says about itself.
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }

    /// What it is computed with on the CPU.
    pub fn kernels(&self) -> Kernels {
        self.kernels
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

/// How the options have a backbone loaded.
pub(crate) fn model_params(options: &ModelOptions, kernels: Kernels) -> ModelParams {
    ModelParams {
        gpu_layers: options.gpu_layers,
        repack: kernels.repacked,
        check_tensors: options.check_tensors,
        ..ModelParams::default()
    }
}

pub(crate) fn open_vision(projector: &Projector<'_>, model: &Model, options: &ModelOptions) -> Result<Vision> {
    let is_gpu = |device: &Device| matches!(device.kind(), DeviceKind::Gpu | DeviceKind::IntegratedGpu);
    let gpu = options.projector_offload.then(|| devices().into_iter().find(is_gpu)).flatten();
    let params = VisionParams {
        device: gpu.unwrap_or_else(Device::cpu),
        threads: options.threads(),
        flash_attention: options.flash_attention,
    };
    let vision = Vision::load(projector, model, &params)?;
    tracing::info!(
        projector = %projector.gguf().path().display(),
        weights_mib = projector.weight_bytes() >> 20,
        device = params.device.name(),
        "projector loaded: images and videos are seen"
    );
    Ok(vision)
}
