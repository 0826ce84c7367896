//! Opening a model.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clef_encoder::EncoderOptions;
use clef_head::{Head, HeadFile};
use clef_llama::gguf::Gguf;
use clef_llama::{Device, Model, ModelParams, Projector, Vision, VisionParams};

use crate::encode::RecordEncoder;
use crate::error::{Error, ErrorKind, Result};
use crate::evaluate::{Evaluator, Parts};
use crate::fit;
use crate::inspect::{self, Inspection, head_file};
use crate::kernels::{self, Kernels};
use crate::media::Gallery;
use crate::options::ModelOptions;
use crate::text::Text;

/// A loaded model: the parts of one file, or of several, known to fit each other.
#[derive(Debug)]
pub struct Bundle {
    encoder: RecordEncoder,
    evaluator: Evaluator,
    inspection: Inspection,
    kernels: Kernels,
    device_name: String,
}

impl Bundle {
    /// Opens a `clef` GGUF file, or a backbone's, and the head and the projector that the options name beside it.
    /// `progress` is told bytes read and bytes in all, and stops the load by returning false.
    ///
    /// Everything that can be checked is checked before weights are read.
    ///
    /// # Errors
    /// If the file cannot decide, its parts contradict each other, options make no sense, or memory runs out.
    pub fn open(path: &Path, options: &ModelOptions, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Self> {
        let start = Instant::now();
        let (gguf, inspection) = look_at(path, options)?;
        let mut options = options.resolved(inspection.backbone.as_ref().map(|backbone| backbone.trained_context));
        if let Some(missing) = inspection.missing.first() {
            return Err(Error::new(ErrorKind::Unsupported, missing));
        }
        if let (Some(named), Ok(own)) = (&options.head, HeadFile::of(&gguf)) {
            tracing::warn!("{}: its own head is not used, but that of {}", own.path().display(), named.display());
        }
        if options.must_fit {
            fit::check(&inspection, &options, &fit::available(&options)?)?;
        }
        let projector_file = options.projector.as_deref().map(Gguf::open).transpose()?;
        let projector = projector_file.as_ref().map(Projector::new).transpose()?;
        let gallery = projector.as_ref().map(|projector| Gallery::new(projector.shape(), &options)).transpose()?;
        let layers = inspection.backbone.as_ref().map_or(0, |backbone| backbone.layers);
        let kernels = kernels::choose(&gguf, layers, &options);
        options.threads = Some(kernels.threads);
        let model = Model::load(&gguf, &model_params(&options, kernels)?, progress)?;
        let head = {
            let file = head_file(&gguf, &options)?;
            Head::load(&file, Arc::clone(&gguf), model.output_device(), kernels.threads)?
        };
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
        fit::warn_of_drift(path, &inspection.quantization);
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

/// What there is to know before anything is loaded.
pub(crate) fn look_at(path: &Path, options: &ModelOptions) -> Result<(Arc<Gguf>, Inspection)> {
    options.check()?;
    options.placement.prepare();
    let gguf = Arc::new(inspect::open(path, options)?);
    let inspection = Inspection::of(&gguf, options)?;
    Ok((gguf, inspection))
}

/// How the options have a backbone loaded.
pub(crate) fn model_params(options: &ModelOptions, kernels: Kernels) -> Result<ModelParams> {
    let mut params = ModelParams {
        gpu_layers: options.gpu_layers,
        repack: kernels.repacked,
        check_tensors: options.check_tensors,
        ..ModelParams::default()
    };
    options.placement.complete(&mut params)?;
    Ok(params)
}

pub(crate) fn open_vision(projector: &Projector<'_>, model: &Model, options: &ModelOptions) -> Result<Vision> {
    let gpus = if options.projector_offload { options.placement.gpus()? } else { Vec::new() };
    let gpu = gpus.first().copied();
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
