//! Reads and checks a file's header.

use std::collections::HashSet;
use std::ops::Range;

use super::TensorType;
use super::value::{Value, ValueType};

/// More metadata keys or tensors than any real model has.
const MAX_ENTRIES: u64 = 1 << 16;
/// ggml's limit, its terminator included.
const MAX_TENSOR_NAME: usize = 64;
const MAX_KEY_BYTES: u64 = 1 << 16;
const MAX_ALIGNMENT: u64 = 1 << 16;
const DEFAULT_ALIGNMENT: u64 = 32;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) kind: ValueType,
    /// The encoded value: for arrays with element type and count, for strings with the length.
    pub(super) value: Encoded,
}

#[derive(Debug)]
pub(super) enum Encoded {
    /// Bytes of the first part.
    InFile(Range<usize>),
    /// Given in place of the file's.
    Given(Vec<u8>),
}

/// A tensor's description; its data stays in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Unique in its file.
    pub name: String,
    /// Elements per dimension, row length first; unused dimensions are 1.
    pub shape: [u64; 4],
    /// How many dimensions the file states, at most 4.
    pub dimensions: usize,
    /// The element type.
    pub kind: TensorType,
    /// Where the data starts, in bytes from the start of the file; in a split model, from the start of its first part,
    /// as if the parts lay one after the other.
    pub offset: u64,
    /// Bytes of data.
    pub bytes: u64,
}

impl TensorInfo {
    /// The number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// A header that holds together.
pub(super) struct Header {
    pub(super) entries: Vec<Entry>,
    pub(super) tensors: Vec<TensorInfo>,
    pub(super) alignment: u64,
}

/// What is wrong with a header, without the file's name.
type Problem = String;

struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: u64) -> std::result::Result<&'a [u8], Problem> {
        let rest = &self.bytes[self.position..];
        let count = usize::try_from(count).ok().filter(|&count| count <= rest.len()).ok_or_else(|| {
            format!("the header is cut off: {count} bytes wanted at {}, {} are left", self.position, rest.len())
        })?;
        self.position += count;
        Ok(&rest[..count])
    }

    fn u32(&mut self) -> std::result::Result<u32, Problem> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn u64(&mut self) -> std::result::Result<u64, Problem> {
        let mut word = [0; 8];
        word.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(word))
    }

    fn text(&mut self, what: &str, limit: u64) -> std::result::Result<String, Problem> {
        let length = self.u64()?;
        if length == 0 || length > limit {
            return Err(format!("{what} has {length} bytes, 1 to {limit} are allowed"));
        }
        let bytes = self.take(length)?;
        match std::str::from_utf8(bytes) {
            // A name with a zero byte would read differently in C.
            Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
            _ => Err(format!("{what} is not text: {:?}", String::from_utf8_lossy(bytes))),
        }
    }

    /// Moves past a value of `kind`, checking its extent.
    fn skip_value(&mut self, kind: ValueType, key: &str) -> std::result::Result<(), Problem> {
        if let Some(length) = kind.fixed_bytes() {
            self.take(length as u64)?;
            return Ok(());
        }
        if kind == ValueType::String {
            let length = self.u64()?;
            self.take(length)?;
            return Ok(());
        }
        let id = self.u32()?;
        let element = ValueType::from_id(id)
            .filter(|&element| element != ValueType::Array)
            .ok_or_else(|| format!("{key} is an array of unknown type {id}"))?;
        let count = self.u64()?;
        match element.fixed_bytes() {
            Some(length) => {
                let length = count.checked_mul(length as u64).ok_or_else(|| format!("{key} has {count} elements"))?;
                self.take(length)?;
            }
            // Each string takes at least its length field, so a false count runs into the end of the file.
            None => {
                for _ in 0..count {
                    let length = self.u64()?;
                    self.take(length)?;
                }
            }
        }
        Ok(())
    }
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> std::result::Result<Self, Problem> {
        let mut cursor = Cursor { bytes, position: 0 };
        let magic = cursor.take(4)?;
        if magic != b"GGUF" {
            return Err(format!("not a GGUF file: it starts with {:?}", String::from_utf8_lossy(magic)));
        }
        let version = cursor.u32()?;
        if !(2..=3).contains(&version) {
            return Err(format!("GGUF version {version}, only 2 and 3 (little-endian) can be read"));
        }
        let tensor_count = cursor.u64()?;
        let entry_count = cursor.u64()?;
        for (what, count) in [("tensors", tensor_count), ("metadata keys", entry_count)] {
            if count > MAX_ENTRIES {
                return Err(format!("the header claims {count} {what}, at most {MAX_ENTRIES} are allowed"));
            }
        }

        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        for _ in 0..entry_count {
            let key = cursor.text("a metadata key", MAX_KEY_BYTES)?;
            if !seen.insert(key.clone()) {
                return Err(format!("the metadata key {key} appears twice"));
            }
            let id = cursor.u32()?;
            let kind = ValueType::from_id(id).ok_or_else(|| format!("{key} has unknown type {id}"))?;
            let start = cursor.position;
            cursor.skip_value(kind, &key)?;
            entries.push(Entry { key, kind, value: Encoded::InFile(start..cursor.position) });
        }
        let alignment = match entries.iter().find(|entry| entry.key == "general.alignment") {
            None => DEFAULT_ALIGNMENT,
            Some(Entry { kind, value: Encoded::InFile(range), .. }) => {
                Value::decode(*kind, &bytes[range.clone()]).as_u64().unwrap_or(0)
            }
            Some(Entry { value: Encoded::Given(_), .. }) => unreachable!("the values of a header are in its file"),
        };
        if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
            return Err(format!("general.alignment must be a power of two up to {MAX_ALIGNMENT}, it is {alignment}"));
        }

        let mut tensors = Vec::new();
        let mut seen = HashSet::new();
        for _ in 0..tensor_count {
            let tensor = Self::tensor(&mut cursor)?;
            if !seen.insert(tensor.name.clone()) {
                return Err(format!("the tensor {} appears twice", tensor.name));
            }
            tensors.push(tensor);
        }

        let data_start = (cursor.position as u64).next_multiple_of(alignment);
        for tensor in &mut tensors {
            if !tensor.offset.is_multiple_of(alignment) {
                return Err(format!("{} starts at {}, not a multiple of {alignment}", tensor.name, tensor.offset));
            }
            let end = data_start.checked_add(tensor.offset).and_then(|start| {
                tensor.offset = start;
                start.checked_add(tensor.bytes)
            });
            if end.is_none_or(|end| end > bytes.len() as u64) {
                return Err(format!(
                    "the file is cut off: {} needs {} bytes at {}, the file has {}",
                    tensor.name,
                    tensor.bytes,
                    tensor.offset,
                    bytes.len()
                ));
            }
        }
        Self::refuse_shared_bytes(&tensors)?;
        Ok(Self { entries, tensors, alignment })
    }

    /// Tensors that share bytes would take more memory than the file has bytes.
    fn refuse_shared_bytes(tensors: &[TensorInfo]) -> std::result::Result<(), Problem> {
        let mut in_order: Vec<&TensorInfo> = tensors.iter().collect();
        in_order.sort_by_key(|tensor| tensor.offset);
        match in_order.windows(2).find(|pair| pair[0].offset + pair[0].bytes > pair[1].offset) {
            Some(pair) => Err(format!("the tensors {} and {} share bytes", pair[0].name, pair[1].name)),
            None => Ok(()),
        }
    }

    /// Reads one tensor description; its offset is still relative to the data section.
    fn tensor(cursor: &mut Cursor<'_>) -> std::result::Result<TensorInfo, Problem> {
        let name = cursor.text("a tensor name", MAX_TENSOR_NAME as u64 - 1)?;
        let dimensions = cursor.u32()? as usize;
        if !(1..=4).contains(&dimensions) {
            return Err(format!("{name} has {dimensions} dimensions, 1 to 4 are allowed"));
        }
        let mut shape = [1; 4];
        let mut elements: u64 = 1;
        for length in shape.iter_mut().take(dimensions) {
            *length = cursor.u64()?;
            elements = elements
                .checked_mul(*length)
                .filter(|&elements| elements > 0 && elements <= i64::MAX as u64)
                .ok_or_else(|| format!("{name} has a dimension of {length}"))?;
        }
        let id = cursor.u32()?;
        let kind = TensorType::from_id(id).ok_or_else(|| format!("{name} has unknown type {id}"))?;
        let bytes = kind
            .row_bytes(shape[0])
            .and_then(|row| row.checked_mul(elements / shape[0]))
            .ok_or_else(|| format!("rows of {} elements do not fit {name}'s type {kind:?}", shape[0]))?;
        let offset = cursor.u64()?;
        Ok(TensorInfo { name, shape, dimensions, kind, offset, bytes })
    }
}
