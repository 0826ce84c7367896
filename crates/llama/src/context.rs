//! Decoding: tokens in, hidden states of all tokens out, sequences copied and removed whole.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clef_sys::{
    LLAMA_FLASH_ATTN_TYPE_AUTO, LLAMA_FLASH_ATTN_TYPE_DISABLED, LLAMA_FLASH_ATTN_TYPE_ENABLED, llama_context,
};

use crate::batch::Batch;
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::TensorType;
use crate::model::{Message, Model, RawModel};
use crate::patience::Patience;
use crate::tokenizer::Token;

/// When attention runs as one fused operation (16-bit keys and values in its inner products).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlashAttention {
    /// Where the device supports it.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: 1e-5 to the float32 reference instead of 2e-4.
    Off,
}

impl FlashAttention {
    pub(crate) fn as_raw(self) -> clef_sys::llama_flash_attn_type {
        match self {
            Self::Auto => LLAMA_FLASH_ATTN_TYPE_AUTO,
            Self::On => LLAMA_FLASH_ATTN_TYPE_ENABLED,
            Self::Off => LLAMA_FLASH_ATTN_TYPE_DISABLED,
        }
    }
}

/// The element type of cached keys or values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names are llama.cpp's")]
pub enum CacheType {
    F32,
    #[default]
    F16,
    Bf16,
    Q8_0,
    Q5_1,
    Q5_0,
    Q4_1,
    Q4_0,
    Iq4Nl,
}

impl CacheType {
    /// All types with the names that llama.cpp's flags use.
    pub const NAMES: [(&'static str, Self); 9] = [
        ("f32", Self::F32),
        ("f16", Self::F16),
        ("bf16", Self::Bf16),
        ("q8_0", Self::Q8_0),
        ("q5_1", Self::Q5_1),
        ("q5_0", Self::Q5_0),
        ("q4_1", Self::Q4_1),
        ("q4_0", Self::Q4_0),
        ("iq4_nl", Self::Iq4Nl),
    ];

    fn as_raw(self) -> clef_sys::ggml_type {
        match self {
            Self::F32 => clef_sys::GGML_TYPE_F32,
            Self::F16 => clef_sys::GGML_TYPE_F16,
            Self::Bf16 => clef_sys::GGML_TYPE_BF16,
            Self::Q8_0 => clef_sys::GGML_TYPE_Q8_0,
            Self::Q5_1 => clef_sys::GGML_TYPE_Q5_1,
            Self::Q5_0 => clef_sys::GGML_TYPE_Q5_0,
            Self::Q4_1 => clef_sys::GGML_TYPE_Q4_1,
            Self::Q4_0 => clef_sys::GGML_TYPE_Q4_0,
            Self::Iq4Nl => clef_sys::GGML_TYPE_IQ4_NL,
        }
    }

    /// Bits that an element takes, block scales included.
    pub fn bits(self) -> f64 {
        let kind = TensorType::from_id(self.as_raw()).expect("ggml knows its cache types");
        kind.block_bytes() as f64 * 8.0 / kind.block_elements() as f64
    }
}

/// How a context is sized and run.
#[derive(Debug, Clone)]
pub struct ContextParams {
    /// Cells of the attention cache, shared by all sequences, in tokens.
    pub cells: u32,
    /// The most tokens one [`Context::decode`] takes; compute buffers are sized for it.
    pub chunk: u32,
    /// Sequences that can be held at once. Each costs its recurrent state from the start.
    pub sequences: u32,
    /// Threads of the CPU backend.
    pub threads: u32,
    /// See [`FlashAttention`].
    pub flash_attention: FlashAttention,
    /// Element type of cached keys.
    pub keys: CacheType,
    /// Element type of cached values; quantized ones need flash attention.
    pub values: CacheType,
}

/// A sequence slot of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u32);

/// How far a sequence goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Length {
    /// Tokens and rows that it holds; each takes a cell.
    pub tokens: u32,
    /// The position of what comes next. It is that of the tokens, unless a picture's rows shared positions.
    pub position: u32,
}

/// Where a row of embeddings stands: in time, and in a picture. Text stands at the same place on all three axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Along the sequence.
    pub time: u32,
    /// Down the picture.
    pub row: u32,
    /// Across the picture.
    pub column: u32,
}

impl Position {
    /// The place of a token of text.
    pub fn text(position: u32) -> Self {
        Self { time: position, row: position, column: position }
    }
}

/// Asks a running [`Context::decode`] to stop at the next graph node. Any thread.
#[derive(Debug, Clone, Default)]
pub struct AbortHandle(Arc<AtomicBool>);

impl AbortHandle {
    /// Raises the flag; decodes fail with [`ErrorKind::Aborted`] until it is lowered.
    pub fn abort(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Lowers the flag.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The memory of a model at work: key-value cells, recurrent states, compute buffers. One thread at a time.
#[derive(Debug)]
pub struct Context {
    pointer: NonNull<llama_context>,
    params: ContextParams,
    width: usize,
    vocabulary: usize,
    abort: AbortHandle,
    logits: Logits,
    /// How far each sequence goes; none after an aborted or failed decode.
    lengths: Vec<Option<Length>>,
    batch: Batch,
    patience: Patience,
    /// Freed after the context.
    _model: Arc<RawModel>,
}

// SAFETY: llama.cpp's contexts have no thread affinity; `&mut self` keeps them to one thread at a time.
unsafe impl Send for Context {}

/// Whether decodes compute the output matrix, for their last token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logits {
    Off,
    /// They will.
    Wanted,
    /// The last one did.
    Computed,
}

/// Hidden states after the final norm, one row per token.
#[derive(Debug, Clone, Copy)]
pub struct HiddenStates<'a> {
    /// `rows * width` values, row by row.
    pub values: &'a [f32],
    /// Values per row.
    pub width: usize,
}

impl Context {
    /// Allocates the memory for `params`.
    ///
    /// # Errors
    /// If `params` make no sense together or memory runs out.
    pub fn new(model: &Model, params: &ContextParams) -> Result<Self> {
        for (what, value, limit) in [
            ("cells", params.cells, 1 << 26),
            ("a chunk of tokens", params.chunk, 1 << 16),
            ("sequences", params.sequences, 256),
            ("threads", params.threads, 512),
        ] {
            if value == 0 || value > limit {
                return Err(Error::argument(format_args!("{what} must be 1 to {limit}, not {value}")));
            }
        }
        let abort = AbortHandle::default();
        // SAFETY: no requirements.
        let mut raw = unsafe { clef_sys::llama_context_default_params() };
        raw.n_ctx = params.cells;
        raw.n_batch = params.chunk;
        raw.n_ubatch = params.chunk;
        raw.n_seq_max = params.sequences;
        // Logits are asked for by one token of a decode at most; by default buffers are sized for a whole chunk of vocabulary-wide rows.
        raw.n_outputs_max = params.sequences;
        raw.n_threads = params.threads as i32;
        raw.n_threads_batch = params.threads as i32;
        raw.embeddings = false;
        raw.kv_unified = true;
        raw.no_perf = true;
        raw.type_k = params.keys.as_raw();
        raw.type_v = params.values.as_raw();
        raw.flash_attn_type = params.flash_attention.as_raw();
        raw.abort_callback = Some(should_abort);
        raw.abort_callback_data = Arc::as_ptr(&abort.0).cast_mut().cast();

        let mut pointer = std::ptr::null_mut();
        let mut message = Message::default();
        // SAFETY: the model is live and kept alive by this context; the abort flag lives as long as the context;
        // `pointer` is valid for writes.
        let status = unsafe {
            clef_sys::clef_context_new(model.raw().as_ptr(), &raw const raw, &raw mut pointer, message.as_raw())
        };
        message.check(status, "the context cannot be made")?;
        let pointer = NonNull::new(pointer).ok_or_else(|| Error::upstream("no context came back"))?;
        Ok(Self {
            pointer,
            params: params.clone(),
            width: model.hyperparameters().width as usize,
            vocabulary: model.hyperparameters().vocabulary as usize,
            abort,
            logits: Logits::Off,
            lengths: vec![Some(Length::default()); params.sequences as usize],
            batch: Batch::default(),
            patience: Patience::default(),
            _model: Arc::clone(model.raw()),
        })
    }

    /// What it was made with.
    pub fn params(&self) -> &ContextParams {
        &self.params
    }

    /// A handle that stops a running decode.
    pub fn abort_handle(&self) -> AbortHandle {
        self.abort.clone()
    }

    /// Whether decodes from now on compute the logits of their last token, for [`Sampler::sample`](crate::Sampler::sample).
    /// Off at first: the output matrix is the largest of a model.
    pub fn compute_logits(&mut self, wanted: bool) {
        self.logits = if wanted { Logits::Wanted } else { Logits::Off };
    }

    /// How far a sequence goes; none if a failed decode left it unusable until cleared.
    ///
    /// # Errors
    /// If there is no such sequence.
    pub fn sequence_length(&self, sequence: SequenceId) -> Result<Option<Length>> {
        self.check_sequence(sequence)?;
        Ok(self.lengths[sequence.0 as usize])
    }

    /// Appends `tokens` to a sequence and returns the hidden states of all of them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for no tokens, more than a chunk, unknown tokens or sequences, or a sequence longer
    /// than all cells; [`ErrorKind::OutOfMemory`] when other sequences hold the cells; [`ErrorKind::Aborted`] when the abort handle was raised.
    /// After an error from the computation itself the sequence must be cleared.
    pub fn decode(&mut self, sequence: SequenceId, tokens: &[Token]) -> Result<HiddenStates<'_>> {
        self.decode_together(&[(sequence, tokens)])
    }

    /// Appends tokens to several sequences in one computation and returns the hidden states of all, in the order given.
    ///
    /// Each sequence reads as if it were alone, but for rounding: kernels choose their way by the number of rows, and
    /// attention passes over the cells of the others.
    ///
    /// # Errors
    /// As [`Context::decode`], for the tokens of all sequences together; also if a sequence is named twice. After an error
    /// from the computation itself all of them must be cleared.
    pub fn decode_together(&mut self, parts: &[(SequenceId, &[Token])]) -> Result<HiddenStates<'_>> {
        let count: usize = parts.iter().map(|(_, tokens)| tokens.len()).sum();
        if count > self.params.chunk as usize || parts.is_empty() || parts.iter().any(|(_, tokens)| tokens.is_empty()) {
            return Err(Error::argument(format_args!(
                "a chunk of {count} tokens in {} parts, 1 to {} are allowed and none may be empty",
                parts.len(),
                self.params.chunk
            )));
        }
        self.batch.clear();
        for (index, &(sequence, tokens)) in parts.iter().enumerate() {
            let start = self.check_appendable(sequence, tokens.len())?;
            if let Some(token) = tokens.iter().find(|token| token.0 < 0 || token.0 as usize >= self.vocabulary) {
                return Err(Error::argument(format_args!("token {} of a vocabulary of {}", token.0, self.vocabulary)));
            }
            if parts[..index].iter().any(|(other, _)| *other == sequence) {
                return Err(Error::argument(format_args!("sequence {} twice in one chunk", sequence.0)));
            }
            self.batch.push(sequence, start.position, tokens);
        }
        let lengths: Vec<(SequenceId, Length)> = parts
            .iter()
            .filter_map(|&(sequence, tokens)| {
                let start = self.lengths[sequence.0 as usize].take()?;
                let count = tokens.len() as u32;
                Some((sequence, Length { tokens: start.tokens + count, position: start.position + count }))
            })
            .collect();
        self.run()?;
        self.finish(&lengths, count)
    }

    /// Appends rows of embeddings, of text and of pictures, to a sequence and returns the hidden states of all of them.
    /// `rows` holds a row of the model's width for each of `positions`; the next position after them is `next`.
    ///
    /// # Errors
    /// As [`Context::decode`]; also if times go back, or `next` is not behind them.
    pub fn decode_rows(
        &mut self,
        sequence: SequenceId,
        rows: &[f32],
        positions: &[Position],
        next: u32,
    ) -> Result<HiddenStates<'_>> {
        let count = positions.len();
        if count == 0 || count > self.params.chunk as usize || rows.len() != count * self.width {
            return Err(Error::argument(format_args!(
                "{} values for a chunk of {count} rows of {}, 1 to {} rows are allowed",
                rows.len(),
                self.width,
                self.params.chunk
            )));
        }
        let start = self.check_appendable(sequence, count)?;
        let goes_back = positions.windows(2).any(|pair| pair[1].time < pair[0].time);
        if goes_back || positions[count - 1].time >= next || next as usize > self.params.cells as usize {
            return Err(Error::argument(format_args!("positions that do not lead from {} to {next}", start.position)));
        }
        self.batch.set_rows(sequence, rows, positions);
        self.lengths[sequence.0 as usize] = None;
        self.run()?;
        let length = Length { tokens: start.tokens + count as u32, position: next };
        self.finish(&[(sequence, length)], count)
    }

    /// Computes the batch.
    fn run(&mut self) -> Result<()> {
        self.patience.start();
        let start = Instant::now();
        let wants_logits = self.logits != Logits::Off;
        self.compute_logits(wants_logits);
        let raw = self.batch.as_raw(wants_logits);
        let mut result = 0;
        let mut message = Message::default();
        // SAFETY: the context is live and not shared; the batch's arrays all hold `n_tokens` entries (four positions each
        // and a row of the model's width where rows are given) and outlive the call; tokens, positions and sequences were
        // checked by the callers.
        let status =
            unsafe { clef_sys::clef_decode(self.pointer.as_ptr(), &raw const raw, &raw mut result, message.as_raw()) };
        message.check(status, "decoding failed")?;
        self.patience.end(start.elapsed());
        match result {
            0 => {
                if wants_logits {
                    self.logits = Logits::Computed;
                }
                Ok(())
            }
            1 => Err(Error::new(ErrorKind::OutOfMemory, "no free cells for the tokens")),
            2 => Err(Error::new(ErrorKind::Aborted, "decoding was stopped")),
            code => Err(Error::upstream(format_args!("decoding failed with code {code}"))),
        }
    }

    /// The hidden states of a batch that was computed; its sequences have these lengths now.
    fn finish(&mut self, lengths: &[(SequenceId, Length)], count: usize) -> Result<HiddenStates<'_>> {
        let mut rows = std::ptr::null();
        let mut message = Message::default();
        // SAFETY: the context is live; `rows` is valid for writes.
        let status = unsafe { clef_sys::clef_hidden_states(self.pointer.as_ptr(), &raw mut rows, message.as_raw()) };
        message.check(status, "no hidden states")?;
        for &(sequence, length) in lengths {
            self.lengths[sequence.0 as usize] = Some(length);
        }
        // SAFETY: after a successful decode the buffer holds a row of `width` floats for each token of the batch, in the
        // batch's order, and stays untouched until the next call that takes `&mut self`.
        let values = unsafe { std::slice::from_raw_parts(rows, count * self.width) };
        Ok(HiddenStates { values, width: self.width })
    }

    /// Where a sequence stands that `count` tokens would continue, if they may.
    fn check_appendable(&self, sequence: SequenceId, count: usize) -> Result<Length> {
        self.check_sequence(sequence)?;
        let start = self.lengths[sequence.0 as usize].ok_or_else(|| {
            Error::argument(format_args!("sequence {} must be cleared after a failed decode", sequence.0))
        })?;
        if start.tokens as usize + count > self.params.cells as usize {
            return Err(Error::argument(format_args!(
                "{count} tokens after {}, the context has {} cells",
                start.tokens, self.params.cells
            )));
        }
        Ok(start)
    }

    /// Makes `to` an exact copy of `from`. Cells are shared, the recurrent state is copied when first written to.
    ///
    /// What is decoded after a copy is bit-equal to what would have followed the original as long as the same cells are
    /// taken; where those of other sequences lie between, attention adds up in another order and rounds differently.
    ///
    /// # Errors
    /// If either sequence does not exist or `from` is unusable.
    pub fn copy_sequence(&mut self, from: SequenceId, to: SequenceId) -> Result<()> {
        self.check_sequence(from)?;
        if self.lengths[from.0 as usize].is_none() {
            return Err(Error::argument(format_args!("sequence {} cannot be copied after a failed decode", from.0)));
        }
        self.check_sequence(to)?;
        if from == to {
            return Ok(());
        }
        self.clear_sequence(to)?;
        let mut message = Message::default();
        // SAFETY: the context is live and both sequences exist.
        let status = unsafe {
            clef_sys::clef_sequence_copy(self.pointer.as_ptr(), from.0 as i32, to.0 as i32, message.as_raw())
        };
        message.check(status, "the sequence cannot be copied")?;
        self.lengths[to.0 as usize] = self.lengths[from.0 as usize];
        Ok(())
    }

    /// Removes all tokens of a sequence and makes it usable again.
    ///
    /// # Errors
    /// If there is no such sequence.
    pub fn clear_sequence(&mut self, sequence: SequenceId) -> Result<()> {
        self.check_sequence(sequence)?;
        let mut message = Message::default();
        // SAFETY: the context is live and the sequence exists.
        let status =
            unsafe { clef_sys::clef_sequence_remove(self.pointer.as_ptr(), sequence.0 as i32, message.as_raw()) };
        message.check(status, "the sequence cannot be removed")?;
        self.lengths[sequence.0 as usize] = Some(Length::default());
        Ok(())
    }

    /// The logits that the last decode computed, one for each token of the vocabulary.
    ///
    /// # Errors
    /// If it computed none.
    pub fn logits(&self) -> Result<&[f32]> {
        if self.logits != Logits::Computed {
            return Err(Error::argument("no logits were computed"));
        }
        let mut logits = std::ptr::null();
        let mut message = Message::default();
        // SAFETY: the context is live, and its last decode computed logits; `logits` is valid for writes.
        let status = unsafe { clef_sys::clef_logits(self.pointer.as_ptr(), &raw mut logits, message.as_raw()) };
        message.check(status, "no logits")?;
        // SAFETY: there is one float for each token, and they stay untouched until the next call that takes `&mut self`.
        Ok(unsafe { std::slice::from_raw_parts(logits, self.vocabulary) })
    }

    pub(crate) fn raw(&self) -> *mut llama_context {
        self.pointer.as_ptr()
    }

    pub(crate) fn set_length(&mut self, sequence: SequenceId, length: Option<Length>) {
        self.lengths[sequence.0 as usize] = length;
    }

    pub(crate) fn check_sequence(&self, sequence: SequenceId) -> Result<()> {
        if sequence.0 < self.params.sequences {
            return Ok(());
        }
        Err(Error::argument(format_args!("sequence {} of {}", sequence.0, self.params.sequences)))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this is the only owner; the model is dropped after it.
        unsafe { clef_sys::llama_free(self.pointer.as_ptr()) };
    }
}

unsafe extern "C" fn should_abort(flag: *mut c_void) -> bool {
    // SAFETY: `Context::new` passes a flag that lives as long as the context.
    let flag = unsafe { &*flag.cast::<AtomicBool>() };
    flag.load(Ordering::Relaxed)
}
