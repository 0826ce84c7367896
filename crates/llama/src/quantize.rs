//! Rewriting a file's weights in another type, as `llama-quantize` does it.

use std::ffi::CString;
use std::path::Path;

use crate::error::{Error, Result};
use crate::model::Message;

/// A mix of weight types, named as people name files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(non_camel_case_types, missing_docs, reason = "the names are llama.cpp's")]
pub enum QuantType {
    F32,
    BF16,
    Q8_0,
    Q6_K,
    Q5_K_M,
    Q5_K_S,
    Q4_K_M,
    Q4_K_S,
    Q4_0,
    Q3_K_L,
    Q3_K_M,
    Q2_K,
    IQ4_XS,
    IQ3_M,
}

/// Writes `input` to `output` with its weights in another type. Uses `threads` CPU threads.
///
/// # Errors
/// If a file cannot be read or written, or llama.cpp refuses the conversion.
pub fn quantize(input: &Path, output: &Path, to: QuantType, threads: u32) -> Result<()> {
    crate::backend::start();
    let path = |path: &Path| {
        CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| Error::argument(format_args!("{} holds a zero byte", path.display())))
    };
    let (raw_input, raw_output) = (path(input)?, path(output)?);
    // SAFETY: no requirements.
    let mut params = unsafe { clef_sys::llama_model_quantize_default_params() };
    params.nthread = threads as i32;
    params.allow_requantize = true;
    params.ftype = match to {
        QuantType::F32 => clef_sys::LLAMA_FTYPE_ALL_F32,
        QuantType::BF16 => clef_sys::LLAMA_FTYPE_MOSTLY_BF16,
        QuantType::Q8_0 => clef_sys::LLAMA_FTYPE_MOSTLY_Q8_0,
        QuantType::Q6_K => clef_sys::LLAMA_FTYPE_MOSTLY_Q6_K,
        QuantType::Q5_K_M => clef_sys::LLAMA_FTYPE_MOSTLY_Q5_K_M,
        QuantType::Q5_K_S => clef_sys::LLAMA_FTYPE_MOSTLY_Q5_K_S,
        QuantType::Q4_K_M => clef_sys::LLAMA_FTYPE_MOSTLY_Q4_K_M,
        QuantType::Q4_K_S => clef_sys::LLAMA_FTYPE_MOSTLY_Q4_K_S,
        QuantType::Q4_0 => clef_sys::LLAMA_FTYPE_MOSTLY_Q4_0,
        QuantType::Q3_K_L => clef_sys::LLAMA_FTYPE_MOSTLY_Q3_K_L,
        QuantType::Q3_K_M => clef_sys::LLAMA_FTYPE_MOSTLY_Q3_K_M,
        QuantType::Q2_K => clef_sys::LLAMA_FTYPE_MOSTLY_Q2_K,
        QuantType::IQ4_XS => clef_sys::LLAMA_FTYPE_MOSTLY_IQ4_XS,
        QuantType::IQ3_M => clef_sys::LLAMA_FTYPE_MOSTLY_IQ3_M,
    };
    let mut message = Message::default();
    // SAFETY: both paths are terminated strings and all pointers live for the call.
    let status = unsafe {
        clef_sys::clef_quantize(raw_input.as_ptr(), raw_output.as_ptr(), &raw const params, message.as_raw())
    };
    message.check(status, format_args!("{} cannot be converted to {to:?}", input.display()))
}
