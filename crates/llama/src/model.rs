//! Loading a backbone and owning it.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clef_sys::{llama_model, llama_vocab};

use crate::backbone::{Backbone, Hyperparameters};
use crate::backend::{self, Device};
use crate::error::{Error, Result};
use crate::gguf::{Gguf, VirtualGguf};
use crate::placement::{RawParams, SplitMode, gpus};
use crate::tokenizer::Vocabulary;

/// How a model is loaded.
#[derive(Debug, Clone)]
pub struct ModelParams {
    /// Layers to place on a GPU; negative for all. Ignored without one.
    pub gpu_layers: i32,
    /// Whether weights may be rewritten into layouts made for generating text. Slower for reading prompts where the
    /// CPU has AVX-512 VNNI, so off unless measured otherwise.
    pub repack: bool,
    /// Whether the values of the weights are checked while loading.
    pub check_tensors: bool,
    /// The GPUs to use, in this order; none for all, an empty list for the CPU alone.
    pub devices: Option<Vec<Device>>,
    /// How the model is split among several GPUs.
    pub split_mode: SplitMode,
    /// Shares of the GPUs, in any unit; empty to share by their free memory.
    pub tensor_split: Vec<f32>,
    /// The one GPU of [`SplitMode::None`], counted from zero; the one for small things of [`SplitMode::Row`].
    pub main_gpu: u32,
    /// Whether the operating system is asked to keep weights in the host's memory, never on the disk.
    pub lock_memory: bool,
    /// Whether the file's `output.weight` is loaded, which only generating text needs. Without it, or where a file has
    /// none, the output is tied to `token_embd.weight`.
    pub output: bool,
}

impl Default for ModelParams {
    fn default() -> Self {
        Self {
            gpu_layers: -1,
            repack: false,
            check_tensors: false,
            devices: None,
            split_mode: SplitMode::default(),
            tensor_split: Vec::new(),
            main_gpu: 0,
            lock_memory: false,
            output: false,
        }
    }
}

/// Called while a model loads with bytes read and bytes in all; returning false stops the load.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// A loaded backbone. Immutable; shared between threads.
#[derive(Debug, Clone)]
pub struct Model {
    raw: Arc<RawModel>,
    vocabulary: Arc<Vocabulary>,
    hyperparameters: Arc<Hyperparameters>,
}

impl Model {
    /// Loads the backbone of a file into memory: one copy of the weights, on the devices that `params` name.
    ///
    /// # Errors
    /// If the file is unsound or of another architecture, memory runs out, or `progress` said stop.
    pub fn load(gguf: &Gguf, params: &ModelParams, progress: Progress<'_>) -> Result<Self> {
        backend::start();
        if params.repack && backend::has_amx() {
            // gcc 12 compiles ggml's tile configuration into an illegal one; the process would end by a signal.
            return Err(Error::unsupported("weights cannot be repacked on a CPU with AMX"));
        }
        let backbone = Backbone::new(gguf)?;
        let backbone = if params.output { backbone.with_output()? } else { backbone };
        let image = backbone.to_virtual();
        tracing::debug!(
            header_bytes = image.header().len(),
            image_bytes = image.length(),
            "weights are read into anonymous memory: the head shares their file, so it cannot be mapped as one model"
        );
        let raw = Arc::new(RawModel::load(gguf, &image, params, progress)?);
        let vocabulary = Arc::new(Vocabulary::new(Arc::clone(&raw), gguf)?);
        Ok(Self { raw, vocabulary, hyperparameters: Arc::new(backbone.hyperparameters().clone()) })
    }

    /// The numbers that shape it.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.hyperparameters
    }

    /// Its vocabulary.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The device whose memory holds the layers nearest the output.
    pub fn output_device(&self) -> Device {
        // llama.cpp counts the output as one layer after the last.
        if self.raw.gpu_layers >= 0 && self.raw.gpu_layers as u32 <= self.hyperparameters.layers {
            return Device::cpu();
        }
        if let Some(device) = self.raw.real_device {
            return device;
        }
        // SAFETY: the model is live.
        let device = unsafe { clef_sys::clef_model_last_device(self.raw.as_ptr()) };
        Device::from_raw(device).unwrap_or_else(Device::cpu)
    }

    /// Bytes of weights in memory.
    pub fn weight_bytes(&self) -> u64 {
        // SAFETY: the model is live.
        unsafe { clef_sys::llama_model_size(self.raw.as_ptr()) }
    }

    pub(crate) fn raw(&self) -> &Arc<RawModel> {
        &self.raw
    }
}

/// The owner of a `llama_model`.
#[derive(Debug)]
pub(crate) struct RawModel {
    pointer: NonNull<llama_model>,
    vocabulary: NonNull<llama_vocab>,
    gpu_layers: i32,
    /// The last GPU where llama.cpp itself knows only one device made of several.
    real_device: Option<Device>,
}

// SAFETY: a loaded model is never written to; llama.cpp shares one between contexts on several threads.
unsafe impl Send for RawModel {}
// SAFETY: as above.
unsafe impl Sync for RawModel {}

impl RawModel {
    fn load(gguf: &Gguf, image: &VirtualGguf, params: &ModelParams, progress: Progress<'_>) -> Result<Self> {
        // The callback below reports bytes, not llama.cpp's count of tensors.
        let mut state = LoadProgress { image, progress, stopped: false, last: None };
        let mut all_params = RawParams::new(params)?;
        all_params.raw.progress_callback = Some(on_progress);
        all_params.raw.progress_callback_user_data = (&raw mut state).cast();

        let mut pointer = std::ptr::null_mut();
        let mut message = Message::default();
        // SAFETY: `image` outlives the call and `read_image` takes just such a pointer; `state` outlives the call and
        // is what `on_progress` expects; so do the lists that `all_params` points into; `pointer` is valid for writes.
        let status = unsafe {
            clef_sys::clef_model_load(
                std::ptr::from_ref(image).cast(),
                Some(read_image),
                image.length(),
                &raw const all_params.raw,
                &raw mut pointer,
                message.as_raw(),
            )
        };
        if state.stopped {
            return Err(Error::new(crate::ErrorKind::Aborted, "loading was stopped"));
        }
        message.check(status, format_args!("{} cannot be loaded", gguf.path().display()))?;
        let pointer = NonNull::new(pointer).ok_or_else(|| Error::upstream("no model came back"))?;
        // SAFETY: the model is live.
        let vocabulary = unsafe { clef_sys::llama_model_get_vocab(pointer.as_ptr()) };
        let vocabulary = NonNull::new(vocabulary.cast_mut()).expect("a model holds its vocabulary by value");
        let last = || params.devices.clone().unwrap_or_else(gpus).last().copied();
        let real_device = (params.split_mode == SplitMode::Tensor).then(last).flatten();
        Ok(Self { pointer, vocabulary, gpu_layers: params.gpu_layers, real_device })
    }

    pub(crate) fn as_ptr(&self) -> *mut llama_model {
        self.pointer.as_ptr()
    }

    pub(crate) fn vocabulary(&self) -> *const llama_vocab {
        self.vocabulary.as_ptr()
    }
}

impl Drop for RawModel {
    fn drop(&mut self) {
        // SAFETY: this is the only owner, and every context holds a reference to it.
        unsafe { clef_sys::llama_model_free(self.pointer.as_ptr()) };
    }
}

struct LoadProgress<'a> {
    image: &'a VirtualGguf,
    progress: Progress<'a>,
    stopped: bool,
    last: Option<Instant>,
}

/// Often enough for a smooth bar, rarely enough to cost nothing.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

unsafe extern "C" fn on_progress(_fraction: f32, user_data: *mut c_void) -> bool {
    // SAFETY: `RawModel::load` passes its own `LoadProgress`, on this thread, for the length of the call.
    let state = unsafe { &mut *user_data.cast::<LoadProgress<'_>>() };
    if state.last.is_some_and(|last| last.elapsed() < PROGRESS_INTERVAL) {
        return true;
    }
    state.last = Some(Instant::now());
    let (read, all) = (state.image.data_bytes_read(), state.image.length());
    // A panic must not cross into C++; it stops the load instead.
    let go_on = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (state.progress)(read, all)));
    state.stopped = !go_on.unwrap_or(false);
    !state.stopped
}

unsafe extern "C" fn read_image(source: *const c_void, offset: u64, buffer: *mut c_void, length: usize) -> i64 {
    // SAFETY: `RawModel::load` passes a live `VirtualGguf`.
    let image = unsafe { &*source.cast::<VirtualGguf>() };
    // SAFETY: stdio passes a buffer of `length` bytes, initialized or not; it is only written to.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
    match image.read_at(offset, buffer) {
        Ok(count) => count as i64,
        Err(error) => {
            tracing::error!("reading the model failed: {error}");
            -1
        }
    }
}

/// A buffer for the shim's error messages.
pub(crate) struct Message([std::ffi::c_char; 512]);

impl Default for Message {
    fn default() -> Self {
        Self([0; 512])
    }
}

impl Message {
    pub(crate) fn as_raw(&mut self) -> clef_sys::clef_message {
        clef_sys::clef_message { text: self.0.as_mut_ptr(), capacity: self.0.len() }
    }

    /// Turns a status of the shim into a result.
    pub(crate) fn check(&self, status: i32, what: impl std::fmt::Display) -> Result<()> {
        match status as u32 {
            clef_sys::CLEF_OK => Ok(()),
            clef_sys::CLEF_THREW => {
                let bytes: Vec<u8> = self.0.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let kind = if text.contains("bad_alloc") || text.contains("failed to allocate") {
                    crate::ErrorKind::OutOfMemory
                } else {
                    crate::ErrorKind::Upstream
                };
                Err(Error::new(kind, format_args!("{what}: {text}")))
            }
            _ => Err(Error::upstream(what)),
        }
    }
}
