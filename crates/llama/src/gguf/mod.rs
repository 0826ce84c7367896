//! GGUF files: reading their header, and presenting a rewritten one.
//!
//! llama.cpp's own reader is made for trusted files: its getters abort the process on an unexpected type. This one
//! treats the file as hostile input: every length is checked against the bytes that are there, nothing is allocated
//! in proportion to a number that the file merely claims, and metadata stays in the mapped file until asked for.

mod header;
mod overrides;
mod reader;
mod split;
mod value;
mod virtual_file;

pub use header::TensorInfo;
pub use overrides::Override;
pub use reader::Gguf;
pub use value::{Array, Value, ValueType};
pub use virtual_file::{HeaderWriter, VirtualGguf};

use crate::error::{Error, Result};

/// The element type of a tensor, one that ggml can compute with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorType(clef_sys::ggml_type);

impl TensorType {
    /// 32-bit floats.
    pub const F32: Self = Self(clef_sys::GGML_TYPE_F32);
    /// 16-bit floats.
    pub const F16: Self = Self(clef_sys::GGML_TYPE_F16);
    /// 16-bit floats with the exponent of 32-bit ones.
    pub const BF16: Self = Self(clef_sys::GGML_TYPE_BF16);
    /// 32-bit integers.
    pub const I32: Self = Self(clef_sys::GGML_TYPE_I32);

    /// The type that a file calls `id`; none if ggml does not know it or has retired it.
    pub fn from_id(id: u32) -> Option<Self> {
        if id >= clef_sys::GGML_TYPE_COUNT {
            return None;
        }
        let known = Self(id);
        // Retired ids keep their place in the table with a block of nothing.
        (known.block_elements() > 0).then_some(known)
    }

    pub(crate) fn as_raw(self) -> clef_sys::ggml_type {
        self.0
    }

    /// Elements per block; 1 for plain types.
    pub fn block_elements(self) -> u64 {
        // SAFETY: the id is below GGML_TYPE_COUNT.
        let elements = unsafe { clef_sys::ggml_blck_size(self.0) };
        u64::try_from(elements).unwrap_or(0)
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> u64 {
        // SAFETY: the id is below GGML_TYPE_COUNT.
        unsafe { clef_sys::ggml_type_size(self.0) as u64 }
    }

    /// Bytes of a row of `elements`, if whole blocks make it up and the number can be represented.
    pub fn row_bytes(self, elements: u64) -> Option<u64> {
        if !elements.is_multiple_of(self.block_elements()) {
            return None;
        }
        (elements / self.block_elements()).checked_mul(self.block_bytes())
    }

    /// The name as llama.cpp prints it, in capitals (`Q4_K`, `BF16`).
    pub fn name(self) -> String {
        // SAFETY: the id is below GGML_TYPE_COUNT; the string has static lifetime.
        let name = unsafe { clef_sys::ggml_type_name(self.0) };
        // SAFETY: ggml returns a terminated string.
        unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy().to_uppercase()
    }

    /// Whether weights of this type can stand on the left of a matrix product on every backend's CPU fallback.
    pub fn is_weight(self) -> bool {
        use clef_sys::{
            GGML_TYPE_BF16, GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_F64, GGML_TYPE_I8, GGML_TYPE_I16, GGML_TYPE_I32,
            GGML_TYPE_I64, GGML_TYPE_Q8_1, GGML_TYPE_Q8_K,
        };
        match self.0 {
            GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16 => true,
            GGML_TYPE_I8 | GGML_TYPE_I16 | GGML_TYPE_I32 | GGML_TYPE_I64 | GGML_TYPE_F64 => false,
            // Intermediate formats of activations, never of weights.
            GGML_TYPE_Q8_1 | GGML_TYPE_Q8_K => false,
            // SAFETY: the id is below GGML_TYPE_COUNT.
            other => unsafe { clef_sys::ggml_is_quantized(other) },
        }
    }

    /// Turns one row of this type into 32-bit floats.
    ///
    /// # Errors
    /// If `row` does not hold exactly `out.len()` elements, or the type has no such conversion.
    pub fn dequantize_row(self, row: &[u8], out: &mut [f32]) -> Result<()> {
        if self.row_bytes(out.len() as u64) != Some(row.len() as u64) {
            return Err(Error::argument(format_args!(
                "a row of {} bytes does not hold {} elements of {}",
                row.len(),
                out.len(),
                self.name()
            )));
        }
        if self == Self::F32 {
            for (value, bytes) in out.iter_mut().zip(row.chunks_exact(4)) {
                *value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
            return Ok(());
        }
        // SAFETY: the id is below GGML_TYPE_COUNT; the table is static.
        let traits = unsafe { clef_sys::ggml_get_type_traits(self.0) };
        // SAFETY: ggml returns a pointer into its static table.
        let to_float = unsafe { (*traits).to_float };
        let Some(to_float) = to_float else {
            return Err(Error::unsupported(format_args!("{} has no conversion to floats", self.name())));
        };
        // ggml's blocks hold 16-bit fields; a mapped file only promises the alignment that its header claims.
        let aligned = AlignedBytes::from(row);
        // SAFETY: `aligned` holds the whole row at an alignment of 16, and `out` has room for each of its elements.
        unsafe { to_float(aligned.as_ptr().cast(), out.as_mut_ptr(), out.len() as i64) };
        Ok(())
    }
}

impl std::fmt::Debug for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

/// A copy of bytes at the alignment that ggml's block structures need.
struct AlignedBytes(Vec<u128>);

impl AlignedBytes {
    fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }
}

impl From<&[u8]> for AlignedBytes {
    fn from(bytes: &[u8]) -> Self {
        let words = bytes.chunks(16).map(|chunk| {
            let mut word = [0; 16];
            word[..chunk.len()].copy_from_slice(chunk);
            u128::from_ne_bytes(word)
        });
        Self(words.collect())
    }
}
