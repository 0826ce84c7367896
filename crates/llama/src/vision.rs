//! Pictures to embeddings: a vision tower at work.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use clef_sys::mtmd_context;

use crate::backend::{self, Device};
use crate::context::FlashAttention;
use crate::error::{Error, Result};
use crate::model::{Message, Model, RawModel};
use crate::patience::Patience;
use crate::projector::{FRAMES_PER_STEP, Projector, TowerShape};

/// How a vision tower is placed and run.
#[derive(Debug, Clone)]
pub struct VisionParams {
    /// The device to compute on; the CPU takes what it cannot.
    pub device: Device,
    /// Threads of the CPU backend.
    pub threads: u32,
    /// See [`FlashAttention`]. Without it attention takes memory with the square of a picture's patches.
    pub flash_attention: FlashAttention,
}

/// A loaded vision tower. One thread at a time.
#[derive(Debug)]
pub struct Vision {
    pointer: NonNull<mtmd_context>,
    shape: TowerShape,
    patience: Patience,
    /// Its embeddings are made for this model, and its tokens are the model's; freed after it.
    _model: Arc<RawModel>,
}

// SAFETY: the library's contexts have no thread affinity; `&mut self` keeps them to one thread at a time.
unsafe impl Send for Vision {}

impl Vision {
    /// Loads a projector beside the model that it was made for.
    ///
    /// # Errors
    /// If it was made for another model, or memory runs out.
    pub fn load(projector: &Projector<'_>, model: &Model, params: &VisionParams) -> Result<Self> {
        backend::start();
        let path = projector.gguf().path();
        let (found, wanted) = (projector.shape().embedding, model.hyperparameters().width);
        if found != wanted {
            return Err(Error::unsupported(format_args!(
                "{}: the projector makes embeddings of width {found}, the model takes {wanted}: they do not belong \
                 together",
                path.display()
            )));
        }
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| Error::argument(format_args!("the path {} holds a zero byte", path.display())))?;
        let on_cpu = params.device == Device::cpu();
        let raw = clef_sys::clef_vision_params {
            use_gpu: !on_cpu,
            device: if on_cpu { std::ptr::null_mut() } else { params.device.as_raw() },
            threads: params.threads as i32,
            flash_attention: params.flash_attention.as_raw(),
        };
        let mut pointer = std::ptr::null_mut();
        let mut message = Message::default();
        // SAFETY: the path is a terminated string; the model is live and kept alive by the tower; `pointer` is valid for
        // writes.
        let status = unsafe {
            clef_sys::clef_vision_new(
                name.as_ptr(),
                model.raw().as_ptr(),
                &raw const raw,
                &raw mut pointer,
                message.as_raw(),
            )
        };
        message.check(status, format_args!("{} cannot be loaded", path.display()))?;
        let pointer = NonNull::new(pointer).ok_or_else(|| Error::upstream("no vision tower came back"))?;
        let shape = projector.shape().clone();
        Ok(Self { pointer, shape, patience: Patience::default(), _model: Arc::clone(model.raw()) })
    }

    /// The numbers that shape it.
    pub fn shape(&self) -> &TowerShape {
        &self.shape
    }

    /// Embeds a picture, or [`FRAMES_PER_STEP`] frames that are seen as one: opaque RGB, 8 bits a channel, rows from the
    /// top, both sides multiples of [`TowerShape::token_side`]. Returns a row of the tower's `embedding` width for each
    /// token, row by row from the top.
    ///
    /// Takes as long as it takes: a computation that runs cannot be stopped.
    ///
    /// # Errors
    /// If the size does not fit the tower, a frame has another number of bytes, or the computation fails.
    pub fn encode(&mut self, frames: &[&[u8]], width: u32, height: u32) -> Result<Vec<f32>> {
        let side = self.shape.token_side();
        if width == 0 || height == 0 || !width.is_multiple_of(side) || !height.is_multiple_of(side) {
            return Err(Error::argument(format_args!("a picture of {width}x{height}, sides are multiples of {side}")));
        }
        // The library computes with 32-bit sizes.
        let bytes = (u64::from(width) * u64::from(height)).saturating_mul(3);
        if bytes > 1 << 30 {
            return Err(Error::argument(format_args!("a picture of {width}x{height} is too large for the tower")));
        }
        if ![1, FRAMES_PER_STEP as usize].contains(&frames.len())
            || frames.iter().any(|frame| frame.len() as u64 != bytes)
        {
            return Err(Error::argument(format_args!("{} frames that are not of {bytes} bytes each", frames.len())));
        }
        let tokens = (width / side) as usize * (height / side) as usize;
        let count = tokens * self.shape.embedding as usize;
        let mut rows: Vec<f32> = Vec::with_capacity(count);
        let pointers: Vec<*const u8> = frames.iter().map(|frame| frame.as_ptr()).collect();
        let mut message = Message::default();
        self.patience.start();
        let start = Instant::now();
        // SAFETY: the tower is live and not shared; each frame holds the bytes that its size says, and `rows` has room
        // for `count` floats.
        let status = unsafe {
            clef_sys::clef_vision_encode(
                self.pointer.as_ptr(),
                pointers.as_ptr(),
                pointers.len(),
                width,
                height,
                self.shape.embedding as usize,
                rows.as_mut_ptr(),
                count,
                message.as_raw(),
            )
        };
        message.check(status, "the picture cannot be embedded")?;
        self.patience.end(start.elapsed());
        // SAFETY: on success all `count` floats were written.
        unsafe { rows.set_len(count) };
        Ok(rows)
    }
}

impl Drop for Vision {
    fn drop(&mut self) {
        // SAFETY: this is the only owner; the model is dropped after it.
        unsafe { clef_sys::clef_vision_free(self.pointer.as_ptr()) };
    }
}
