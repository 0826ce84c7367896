//! Reads the header of a safetensors file, as hostile input.
//!
//! The format is a length, a JSON object that says where each tensor's bytes are, and the bytes
//! (<https://huggingface.co/docs/safetensors>). Every extent is checked against the bytes that are there before anything
//! is read, and nothing but the header, which is bounded, is held.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use clef_llama::gguf::TensorType;
use serde::Deserialize;

use crate::error::{Error, ErrorKind, Result};
use crate::layout::invalid;

/// Twice what a head of the most blocks needs.
const MAX_HEADER_BYTES: u64 = 1 << 20;
const MAX_TENSORS: usize = 1 << 14;
const MAX_NAME_BYTES: usize = 256;

/// A file whose header was read and checked.
#[derive(Debug)]
pub(crate) struct Safetensors {
    path: PathBuf,
    file: File,
    tensors: BTreeMap<String, Stored>,
}

/// Where a tensor's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) kind: TensorType,
    /// Slowest dimension first; empty for a single number.
    pub(crate) shape: Vec<u64>,
    /// From the start of the file.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// A tensor as the header describes it.
#[derive(Debug, Deserialize)]
struct Description {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl Safetensors {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let shown = path.display();
        let cannot =
            |what: &str, e: std::io::Error| Error::new(ErrorKind::Io, format_args!("cannot {what} {shown}: {e}"));
        let file = File::open(path).map_err(|e| cannot("open", e))?;
        let length = file.metadata().map_err(|e| cannot("read", e))?.len();
        let foreign = || invalid(path, "neither a GGUF nor a safetensors file");
        if length < 8 {
            return Err(foreign());
        }
        let mut word = [0; 8];
        file.read_exact_at(&mut word, 0).map_err(|e| cannot("read", e))?;
        let header_bytes = u64::from_le_bytes(word);
        let mut first = [0];
        if length > 8 {
            file.read_exact_at(&mut first, 8).map_err(|e| cannot("read", e))?;
        }
        if first != *b"{" || header_bytes < 2 {
            return Err(foreign());
        }
        if header_bytes > MAX_HEADER_BYTES {
            let what = format_args!("the header claims {header_bytes} bytes, at most {MAX_HEADER_BYTES} are allowed");
            return Err(invalid(path, what));
        }
        if header_bytes > length - 8 {
            let what = format_args!("the file is cut off: the header has {header_bytes} bytes, the file {length}");
            return Err(invalid(path, what));
        }
        let mut header = vec![0; header_bytes as usize];
        file.read_exact_at(&mut header, 8).map_err(|e| cannot("read", e))?;
        let start = 8 + header_bytes;
        let tensors = parse(&header, start, length - start).map_err(|problem| invalid(path, problem))?;
        Ok(Self { path: path.to_owned(), file, tensors })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Stored> {
        self.tensors.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Reads bytes whose extent lies inside one of the tensors.
    pub(crate) fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let mut data = vec![0; bytes as usize];
        self.file.read_exact_at(&mut data, offset).map_err(|e| {
            Error::new(ErrorKind::Io, format_args!("cannot read {bytes} bytes of {}: {e}", self.path.display()))
        })?;
        Ok(data)
    }
}

/// The tensors of a header, whose extents are in the file, one behind the other and without gaps.
fn parse(header: &[u8], start: u64, data_bytes: u64) -> std::result::Result<BTreeMap<String, Stored>, String> {
    let described: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|e| format!("the header is not as it should be: {e}"))?;
    if described.len() > MAX_TENSORS {
        return Err(format!("the header names {} tensors, at most {MAX_TENSORS} are allowed", described.len()));
    }
    let mut tensors = BTreeMap::new();
    for (name, value) in described.into_iter().filter(|(name, _)| name != "__metadata__") {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(format!("a tensor's name has {} bytes, 1 to {MAX_NAME_BYTES} are allowed", name.len()));
        }
        let stored = stored(value, start, data_bytes).map_err(|problem| format!("the tensor {name}: {problem}"))?;
        tensors.insert(name, stored);
    }
    let mut in_order: Vec<&Stored> = tensors.values().collect();
    in_order.sort_by_key(|tensor| (tensor.offset, tensor.bytes));
    let mut end = start;
    for tensor in in_order {
        if tensor.offset != end {
            return Err(format!("tensors share bytes or leave a gap at {end}"));
        }
        end += tensor.bytes;
    }
    if end != start + data_bytes {
        return Err(format!("{} bytes belong to no tensor", start + data_bytes - end));
    }
    Ok(tensors)
}

fn stored(value: serde_json::Value, start: u64, data_bytes: u64) -> std::result::Result<Stored, String> {
    let Description { dtype, shape, data_offsets: [from, to] } =
        serde_json::from_value(value).map_err(|e| format!("its description is not as it should be: {e}"))?;
    let kind = match dtype.as_str() {
        "F32" => TensorType::F32,
        "F16" => TensorType::F16,
        "BF16" => TensorType::BF16,
        other => {
            let other: String = other.chars().take(16).collect();
            return Err(format!("its type is {other:?}, only F32, F16 and BF16 can be read"));
        }
    };
    if shape.len() > 4 {
        return Err(format!("it has {} dimensions, at most 4 are allowed", shape.len()));
    }
    let elements = shape.iter().try_fold(1_u64, |product, &length| product.checked_mul(length));
    let needed = elements.and_then(|elements| elements.checked_mul(kind.block_bytes()));
    let bytes = to.checked_sub(from).ok_or_else(|| format!("it ends at {to}, before it starts at {from}"))?;
    if to > data_bytes {
        return Err(format!("the file is cut off: it ends at {to}, the file has {data_bytes} bytes of data"));
    }
    if needed != Some(bytes) {
        return Err(format!("its shape {shape:?} does not take {bytes} bytes"));
    }
    Ok(Stored { kind, shape, offset: start + from, bytes })
}
