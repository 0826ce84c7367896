//! The safe wrapper over llama.cpp.
//!
//! Why it exists: llama.cpp is C and C++, trusts the files it loads, and ends the process on a failed assertion.
//! Everything above this crate is safe Rust that sees errors instead. With `clef-sys` it is the only crate of the
//! workspace that contains `unsafe`.
//!
//! The rooms: [`gguf`] reads and rewrites model files without any foreign code; [`Backbone`] checks what a file says
//! before llama.cpp sees it and presents it as a plain `qwen35` model, [`Projector`] does so for vision towers; [`Model`],
//! [`Vocabulary`], [`Context`], [`Sampler`] and [`Vision`] own the C objects; [`graph`] is a small layer for computations of our own on the model's device; [`kernels`] finds out which
//! of the CPU's kernels read fastest.

#![allow(unsafe_code, reason = "wrapping C is what this crate is for")]

mod backbone;
mod backend;
mod batch;
mod context;
mod error;
pub mod gguf;
pub mod graph;
pub mod kernels;
mod log;
mod model;
mod patience;
mod pieces;
mod placement;
mod projector;
mod quantize;
mod sampler;
mod saved;
mod tokenizer;
mod vision;

pub use backbone::{Backbone, Hyperparameters};
pub use backend::{Device, DeviceKind, devices, spread_threads};
pub use context::{
    AbortHandle, CacheType, Context, ContextParams, FlashAttention, HiddenStates, Length, Position, SequenceId,
};
pub use error::{Error, ErrorKind, Result};
pub use log::{exit_now, set_abort_exit_code};
pub use model::{Model, ModelParams, Progress};
pub use placement::{Numa, SplitMode, gpus};
pub use projector::{FRAMES_PER_STEP, Projector, TowerShape};
pub use quantize::{QuantType, quantize};
pub use sampler::{Sampler, Sampling};
pub use saved::{SavedPart, SavedSequence};
pub use tokenizer::{Token, Vocabulary};
pub use vision::{Vision, VisionParams};

/// The llama.cpp build this crate stands on, as upstream numbers it (`b11434`).
pub const LLAMA_CPP_BUILD: &str = clef_sys::LLAMA_CPP_BUILD;
