//! Reads and checks a header.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use super::TensorType;
use super::overrides::Override;
use super::split::{self, Place};
use super::value::{Value, ValueType};
use crate::error::{Error, Result};

/// More metadata keys or tensors than any real model has.
const MAX_ENTRIES: u64 = 1 << 16;
/// ggml's limit, its terminator included.
const MAX_TENSOR_NAME: usize = 64;
const MAX_KEY_BYTES: u64 = 1 << 16;
const MAX_ALIGNMENT: u64 = 1 << 16;
const DEFAULT_ALIGNMENT: u64 = 32;

/// A model file whose header was read and checked. A model that is split into several files is one of these as well:
/// the metadata of its first part and the tensors of all.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    /// At least one.
    parts: Vec<Part>,
    /// Of the first part.
    entries: Vec<Entry>,
    tensors: Vec<TensorInfo>,
    tensor_index: HashMap<String, usize>,
    alignment: u64,
}

/// One of the files of a model.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    file: Arc<File>,
    map: Mmap,
    /// Bytes of the parts before it.
    start: u64,
}

#[derive(Debug)]
struct Entry {
    key: String,
    kind: ValueType,
    /// The encoded value: for arrays with element type and count, for strings with the length.
    value: Encoded,
}

#[derive(Debug)]
enum Encoded {
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

impl Gguf {
    /// Opens a file and reads its header; no tensor data is touched. Of a split model any part may be named: the others
    /// are found beside it.
    ///
    /// # Errors
    /// If the file or a part cannot be read, is not GGUF version 2 or 3, is cut off, or contradicts itself or another.
    pub fn open(path: &Path) -> Result<Self> {
        let named = Self::open_part(path)?;
        match named.place()? {
            Some(place) => Self::join(named, &place),
            None => Ok(named),
        }
    }

    /// Opens a file for itself, whether it is part of something or not.
    fn open_part(path: &Path) -> Result<Self> {
        let shown = path.display();
        // Before opening: a pipe would wait for somebody to write to it.
        let found = std::fs::metadata(path).map_err(|e| Error::io(format_args!("cannot open {shown}"), e))?;
        if !found.is_file() {
            return Err(Error::invalid(format_args!("{shown} is not a file")));
        }
        let file = File::open(path).map_err(|e| Error::io(format_args!("cannot open {shown}"), e))?;
        let length = file.metadata().map_err(|e| Error::io(format_args!("cannot read {shown}"), e))?;
        if length.len() < 24 {
            return Err(Error::invalid(format_args!("{shown} has {} bytes, too few for a GGUF file", length.len())));
        }
        // SAFETY: the map is read-only. A model file that another program shortens while it is in use ends this
        // process, as with every program that maps its model; docs say so.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| Error::io(format_args!("cannot map {shown}"), e))?;
        let header = Header::parse(&map).map_err(|e| Error::invalid(format_args!("{shown}: {e}")))?;
        let tensor_index = header.tensors.iter().enumerate().map(|(i, t)| (t.name.clone(), i)).collect();
        Ok(Self {
            path: path.to_owned(),
            parts: vec![Part { path: path.to_owned(), file: Arc::new(file), map, start: 0 }],
            entries: header.entries,
            tensors: header.tensors,
            tensor_index,
            alignment: header.alignment,
        })
    }

    /// Its place in a split model, if it is part of one.
    fn place(&self) -> Result<Option<Place>> {
        let number = |key: &str| self.get(key).map(|value| value.as_u64());
        let place = Place::read(&self.path, number("split.no"), number("split.count"), number("split.tensors.count"));
        place.map_err(|e| Error::invalid(format_args!("{}: {e}", self.path.display())))
    }

    /// One model of all parts, the named one among them.
    fn join(named: Self, place: &Place) -> Result<Self> {
        let path = named.path.clone();
        let mut named = Some(named);
        let mut whole: Option<Self> = None;
        for number in 0..place.count {
            let next = match named.take_if(|_| number == place.number) {
                Some(part) => part,
                None => Self::open_part(&place.path_of(number)).map_err(|e| {
                    Error::new(
                        e.kind(),
                        format_args!("part {} of {} of {}: {e}", number + 1, place.count, path.display()),
                    )
                })?,
            };
            let found = next.place()?;
            split::agree(place, number, found.as_ref())
                .map_err(|e| Error::invalid(format_args!("{}: {e}", next.path.display())))?;
            match &mut whole {
                None => whole = Some(next),
                Some(whole) => whole.append(next)?,
            }
        }
        let mut whole = whole.expect("a split model has at least two parts");
        if let Some(stated) = place.tensors.filter(|&stated| stated != whole.tensors.len() as u64) {
            return Err(Error::invalid(format_args!(
                "{}: the {} parts have {} tensors, {stated} are stated: they do not belong together",
                path.display(),
                place.count,
                whole.tensors.len()
            )));
        }
        whole.path = path;
        whole.entries.retain(|entry| !entry.key.starts_with("split."));
        Ok(whole)
    }

    /// Adds the tensors of the next part.
    fn append(&mut self, next: Self) -> Result<()> {
        let refused = |what: String| Err(Error::invalid(format_args!("{}: {what}", next.path.display())));
        for entry in &next.entries {
            // Parts repeat the numbers of the split and, if anything, what is the same in all.
            let own = entry.key.starts_with("split.") || entry.key == "general.alignment";
            if !own && self.raw(&entry.key).is_some_and(|known| Some(known) != next.raw(&entry.key)) {
                let first = self.parts[0].path.display();
                return refused(format!(
                    "its {} is another than that of {first}: parts of different models",
                    entry.key
                ));
            }
        }
        let start = self.file_bytes();
        for mut tensor in next.tensors {
            if let Some(&index) = self.tensor_index.get(&tensor.name) {
                let other = self.part_of(self.tensors[index].offset).path.display();
                return refused(format!("the tensor {} is in {other}, too", tensor.name));
            }
            tensor.offset += start;
            self.tensor_index.insert(tensor.name.clone(), self.tensors.len());
            self.tensors.push(tensor);
        }
        self.parts.extend(next.parts.into_iter().map(|part| Part { start, ..part }));
        Ok(())
    }

    /// Puts values in place of the file's, or beside them. What is computed with is checked by whoever reads it, as the
    /// file's own values are.
    ///
    /// # Errors
    /// If a key is about how the file itself is read.
    pub fn set(&mut self, overrides: &[Override]) -> Result<()> {
        for change in overrides {
            let key = change.key();
            if key == "general.alignment" || key.starts_with("split.") {
                return Err(Error::argument(format_args!("{key} says how the file is read and cannot be overridden")));
            }
            let (kind, bytes) = change.encoded();
            let value = Encoded::Given(bytes);
            match self.entries.iter_mut().find(|entry| entry.key == key) {
                Some(entry) => (entry.kind, entry.value) = (kind, value),
                None => self.entries.push(Entry { key: key.to_owned(), kind, value }),
            }
            tracing::info!("{key} is taken as {change}, whatever {} says", self.path.display());
        }
        Ok(())
    }

    /// Where the file lies; of a split model, the part that was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many files there are.
    pub fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// The size of all parts in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.start + part.map.len() as u64)
    }

    /// The files, each with where it starts.
    pub(super) fn files(&self) -> impl Iterator<Item = (u64, &Arc<File>)> {
        self.parts.iter().map(|part| (part.start, &part.file))
    }

    fn part_of(&self, offset: u64) -> &Part {
        let after = self.parts.partition_point(|part| part.start <= offset);
        &self.parts[after - 1]
    }

    /// The alignment of tensor data in the first part, a power of two.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// All metadata keys in file order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        self.raw(key).map(|(kind, bytes)| Value::decode(kind, bytes))
    }

    /// The type and encoded bytes of a key's value.
    pub(crate) fn raw(&self, key: &str) -> Option<(ValueType, &[u8])> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        let bytes = match &entry.value {
            Encoded::InFile(range) => &self.parts[0].map[range.clone()],
            Encoded::Given(bytes) => bytes,
        };
        Some((entry.kind, bytes))
    }

    /// The value of a key as text.
    pub fn get_str(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// All tensors in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// A tensor by name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensor_index.get(name).map(|&index| &self.tensors[index])
    }

    /// The data of a tensor, mapped from the file: pages are read when touched.
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        let part = self.part_of(tensor.offset);
        let offset = tensor.offset - part.start;
        // The reader checked that every tensor lies inside its file, whose size fits the address space.
        &part.map[offset as usize..(offset + tensor.bytes) as usize]
    }

    /// A row of a tensor in 32-bit floats, read from the mapped file.
    ///
    /// # Errors
    /// If there is no such row, `out` is not of its length, or the type has no conversion to floats.
    pub fn dequantize_row(&self, tensor: &TensorInfo, index: usize, out: &mut [f32]) -> Result<()> {
        let rows = (tensor.elements() / tensor.shape[0]) as usize;
        if index >= rows {
            return Err(Error::argument(format_args!("row {index} of the {rows} of {}", tensor.name)));
        }
        let data = self.data(tensor);
        let row_bytes = data.len() / rows;
        tensor.kind.dequantize_row(&data[index * row_bytes..(index + 1) * row_bytes], out)
    }

    /// Reads a tensor's data without leaving it mapped, so that it does not count as held twice.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn read_data(&self, tensor: &TensorInfo) -> Result<Vec<u8>> {
        let mut data = vec![0; tensor.bytes as usize];
        let part = self.part_of(tensor.offset);
        read_exact_at(&part.file, &mut data, tensor.offset - part.start)
            .map_err(|e| Error::io(format_args!("cannot read {} of {}", tensor.name, part.path.display()), e))?;
        Ok(data)
    }

    /// Reads a part of a tensor's data, for callers that want no more than a buffer of it at a time.
    ///
    /// # Errors
    /// If the tensor does not have `buffer.len()` bytes from `from` on, or the file can no longer be read.
    pub fn read_part(&self, tensor: &TensorInfo, from: u64, buffer: &mut [u8]) -> Result<()> {
        let end = from.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > tensor.bytes) {
            let (length, all) = (buffer.len(), tensor.bytes);
            return Err(Error::argument(format_args!("{length} bytes at {from} of the {all} of {}", tensor.name)));
        }
        let part = self.part_of(tensor.offset);
        read_exact_at(&part.file, buffer, tensor.offset - part.start + from)
            .map_err(|e| Error::io(format_args!("cannot read {} of {}", tensor.name, part.path.display()), e))
    }
}

/// Reads at a position without moving the file's own.
pub(super) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    file.read_exact_at(buffer, offset)
}

struct Header {
    entries: Vec<Entry>,
    tensors: Vec<TensorInfo>,
    alignment: u64,
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
    fn parse(bytes: &[u8]) -> std::result::Result<Self, Problem> {
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
