//! Tensors that outlive a graph.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;

use clef_sys::{ggml_backend_buffer, ggml_context};

use super::builder::Tensor;
use super::compute::Compute;
use crate::backend::BufferType;
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::TensorType;

/// Named tensors in one buffer on a device.
#[derive(Debug)]
pub struct Store {
    _context: Metadata,
    buffer: NonNull<ggml_backend_buffer>,
    tensors: HashMap<String, StoredTensor>,
}

#[derive(Debug)]
struct StoredTensor {
    pointer: NonNull<clef_sys::ggml_tensor>,
    shape: [usize; 4],
    kind: TensorType,
    bytes: usize,
}

// SAFETY: the buffer is plain memory of a device; every write goes through `&mut self` or through a graph, of which
// `Compute` runs one at a time.
unsafe impl Send for Store {}

impl Store {
    /// A tensor by name.
    pub fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let tensor = self.tensors.get(name)?;
        Some(Tensor::stored(tensor.pointer, tensor.shape, tensor.kind))
    }

    /// Overwrites a tensor's data.
    ///
    /// # Errors
    /// If there is no such tensor or it does not have just as many bytes.
    pub fn set(&mut self, name: &str, data: &[u8]) -> Result<()> {
        let tensor = self
            .tensors
            .get(name)
            .filter(|tensor| tensor.bytes == data.len())
            .ok_or_else(|| Error::argument(format_args!("{} bytes for the stored tensor {name}", data.len())))?;
        // SAFETY: the tensor is live and allocated, and takes exactly `data.len()` bytes.
        unsafe {
            clef_sys::ggml_backend_tensor_set(tensor.pointer.as_ptr(), data.as_ptr().cast::<c_void>(), 0, data.len());
        }
        Ok(())
    }

    /// Overwrites rows of a tensor of 32-bit floats, from row `first` on.
    ///
    /// # Errors
    /// If there is no such tensor, or the data is no whole number of its rows or reaches beyond its end.
    pub fn set_rows(&mut self, name: &str, first: usize, data: &[f32]) -> Result<()> {
        let (tensor, offset) = self.rows_of_floats(name, first, data.len())?;
        // SAFETY: the tensor is live and allocated, and `rows_of_floats` checked that the data lies within it.
        unsafe {
            clef_sys::ggml_backend_tensor_set(
                tensor.as_ptr(),
                data.as_ptr().cast::<c_void>(),
                offset,
                size_of_val(data),
            );
        }
        Ok(())
    }

    /// Copies rows of a tensor of 32-bit floats to the host, from row `first` on, to fill `data`.
    ///
    /// # Errors
    /// As [`Store::set_rows`].
    pub fn get_rows(&self, name: &str, first: usize, data: &mut [f32]) -> Result<()> {
        let (tensor, offset) = self.rows_of_floats(name, first, data.len())?;
        // SAFETY: as in `set_rows`; graphs that write to the tensor have ended, as `Compute` waits for them.
        unsafe {
            clef_sys::ggml_backend_tensor_get(
                tensor.as_ptr(),
                data.as_mut_ptr().cast::<c_void>(),
                offset,
                size_of_val(data),
            );
        }
        Ok(())
    }

    /// A tensor and the offset of row `first`, if `values` of its values from there on are whole rows within it.
    fn rows_of_floats(
        &self,
        name: &str,
        first: usize,
        values: usize,
    ) -> Result<(NonNull<clef_sys::ggml_tensor>, usize)> {
        let found = self.tensors.get(name).filter(|tensor| tensor.kind == TensorType::F32).and_then(|tensor| {
            let [width, rows, ..] = tensor.shape;
            let end = first.checked_add(values / width)?;
            (values.is_multiple_of(width) && end <= rows && tensor.shape[2..] == [1, 1])
                .then_some((tensor.pointer, first * width * size_of::<f32>()))
        });
        found.ok_or_else(|| Error::argument(format_args!("{values} values from row {first} of the tensor {name}")))
    }

    /// Bytes of the buffer, on the device.
    pub fn bytes(&self) -> usize {
        // SAFETY: the buffer is live.
        unsafe { clef_sys::ggml_backend_buffer_get_size(self.buffer.as_ptr()) }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { clef_sys::ggml_backend_buffer_free(self.buffer.as_ptr()) };
    }
}

/// Collects the tensors of a [`Store`].
#[derive(Debug, Default)]
pub struct StoreBuilder {
    tensors: Vec<(String, [usize; 4], TensorType)>,
}

impl StoreBuilder {
    /// Adds a tensor; names must be unique.
    ///
    /// # Panics
    /// If a dimension is zero or rows do not fit the type.
    pub fn add(&mut self, name: impl Into<String>, shape: [usize; 4], kind: TensorType) {
        assert!(shape.iter().all(|&length| length > 0), "an empty tensor: {shape:?}");
        assert!(kind.row_bytes(shape[0] as u64).is_some(), "rows of {} in {kind:?}", shape[0]);
        self.tensors.push((name.into(), shape, kind));
    }

    /// Allocates all tensors on the device of `compute`, uninitialized.
    ///
    /// # Errors
    /// If the device has not enough memory.
    pub fn build(self, compute: &Compute) -> Result<Store> {
        self.build_in(compute.buffer_type(), &format!("{} for the head", compute.device().name()))
    }

    /// The same in memory of a kind, which errors name `place`.
    pub(crate) fn build_in(self, buffer_type: BufferType, place: &str) -> Result<Store> {
        let context = Metadata::new(self.tensors.len())?;
        let mut tensors = HashMap::new();
        for (name, shape, kind) in self.tensors {
            let lengths = shape.map(|length| length as i64);
            // SAFETY: the context is live and has room for this many tensors; the shape was checked by `add`.
            let pointer = unsafe { clef_sys::ggml_new_tensor(context.0.as_ptr(), kind.as_raw(), 4, lengths.as_ptr()) };
            let pointer = NonNull::new(pointer).expect("the context was sized for its tensors");
            // SAFETY: the tensor is live.
            let bytes = unsafe { clef_sys::ggml_nbytes(pointer.as_ptr()) };
            let doubled = tensors.insert(name, StoredTensor { pointer, shape, kind, bytes });
            assert!(doubled.is_none(), "two stored tensors of one name");
        }
        // SAFETY: context and buffer type are live.
        let buffer =
            unsafe { clef_sys::ggml_backend_alloc_ctx_tensors_from_buft(context.0.as_ptr(), buffer_type.as_raw()) };
        let buffer = NonNull::new(buffer).ok_or_else(|| {
            let bytes: usize = tensors.values().map(|tensor| tensor.bytes).sum();
            let what = format!("{bytes} bytes on {place} cannot be had");
            Error::new(ErrorKind::OutOfMemory, what)
        })?;
        // SAFETY: the buffer is live.
        unsafe {
            clef_sys::ggml_backend_buffer_set_usage(buffer.as_ptr(), clef_sys::GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        }
        Ok(Store { _context: context, buffer, tensors })
    }
}

/// A ggml context that holds descriptions of tensors, not their data.
#[derive(Debug)]
pub(crate) struct Metadata(pub(crate) NonNull<ggml_context>);

impl Metadata {
    pub(crate) fn new(tensors: usize) -> Result<Self> {
        Self::with_extra(tensors, 0)
    }

    pub(super) fn with_extra(tensors: usize, extra_bytes: usize) -> Result<Self> {
        // SAFETY: no requirements.
        let overhead = unsafe { clef_sys::ggml_tensor_overhead() };
        let params = clef_sys::ggml_init_params {
            mem_size: (tensors + 1) * overhead + extra_bytes,
            mem_buffer: std::ptr::null_mut(),
            no_alloc: true,
        };
        // SAFETY: ggml allocates the memory itself.
        let context = unsafe { clef_sys::ggml_init(params) };
        NonNull::new(context).map(Self).ok_or_else(|| Error::new(ErrorKind::OutOfMemory, "no memory for a graph"))
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { clef_sys::ggml_free(self.0.as_ptr()) };
    }
}
