//! An open model file, of one part or of several.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use super::header::{Encoded, Entry, Header, TensorInfo};
use super::overrides::Override;
use super::split::{self, Place};
use super::value::{Value, ValueType};
use crate::error::{Error, Result};

/// A model file whose header was read and checked. A model that is split into several files is one of these as well:
/// the metadata of its first part and the tensors of all.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    /// At least one.
    parts: Vec<Part>,
    /// Of the first part.
    entries: Vec<Entry>,
    key_index: HashMap<String, usize>,
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
        let key_index = index(header.entries.iter().map(|entry| &entry.key));
        let tensor_index = index(header.tensors.iter().map(|tensor| &tensor.name));
        Ok(Self {
            path: path.to_owned(),
            parts: vec![Part { path: path.to_owned(), file: Arc::new(file), map, start: 0 }],
            entries: header.entries,
            key_index,
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
        whole.key_index = index(whole.entries.iter().map(|entry| &entry.key));
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
            match self.key_index.get(key) {
                Some(&index) => {
                    let entry = &mut self.entries[index];
                    (entry.kind, entry.value) = (kind, value);
                    tracing::info!("{key} is taken as {change}, whatever {} says", self.path.display());
                }
                None => {
                    self.key_index.insert(key.to_owned(), self.entries.len());
                    self.entries.push(Entry { key: key.to_owned(), kind, value });
                    tracing::warn!("{} has no key {key}; it is taken as {change}", self.path.display());
                }
            }
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

    /// Where the files lie, in order.
    pub fn part_paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
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
        let entry = &self.entries[*self.key_index.get(key)?];
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

/// Where each name stands.
fn index<'n>(names: impl Iterator<Item = &'n String>) -> HashMap<String, usize> {
    names.enumerate().map(|(index, name)| (name.clone(), index)).collect()
}

/// Reads at a position without moving the file's own.
pub(super) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    file.read_exact_at(buffer, offset)
}
