//! A file that does not exist: a rewritten header in front of another file's tensor data.
//!
//! llama.cpp insists that the tensors of a header follow each other without gaps, so leaving one out moves all that
//! come after it. Reads of the data section are mapped to where the bytes really are; nothing is copied or written.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::header::TensorInfo;
use super::reader::{Gguf, read_exact_at};
use super::value::ValueType;

/// Builds a GGUF version 3 header.
#[derive(Debug, Default)]
pub struct HeaderWriter {
    entries: Vec<u8>,
    entry_count: u64,
}

impl HeaderWriter {
    fn key(&mut self, key: &str, kind: ValueType) {
        self.entry_count += 1;
        self.string(key);
        self.entries.extend((kind as u32).to_le_bytes());
    }

    fn string(&mut self, text: &str) {
        self.entries.extend((text.len() as u64).to_le_bytes());
        self.entries.extend(text.as_bytes());
    }

    /// Adds a 16-bit unsigned number.
    pub fn put_u16(&mut self, key: &str, value: u16) {
        self.key(key, ValueType::U16);
        self.entries.extend(value.to_le_bytes());
    }

    /// Adds a 32-bit unsigned number.
    pub fn put_u32(&mut self, key: &str, value: u32) {
        self.key(key, ValueType::U32);
        self.entries.extend(value.to_le_bytes());
    }

    /// Adds a 32-bit float.
    pub fn put_f32(&mut self, key: &str, value: f32) {
        self.key(key, ValueType::F32);
        self.entries.extend(value.to_le_bytes());
    }

    /// Adds a truth value.
    pub fn put_bool(&mut self, key: &str, value: bool) {
        self.key(key, ValueType::Bool);
        self.entries.push(u8::from(value));
    }

    /// Adds a string.
    pub fn put_str(&mut self, key: &str, value: &str) {
        self.key(key, ValueType::String);
        self.string(value);
    }

    /// Adds an array of 32-bit signed numbers.
    pub fn put_i32_array(&mut self, key: &str, values: &[i32]) {
        self.array(key, ValueType::I32, values.len());
        for value in values {
            self.entries.extend(value.to_le_bytes());
        }
    }

    /// Adds an array of 32-bit unsigned numbers.
    pub fn put_u32_array(&mut self, key: &str, values: &[u32]) {
        self.array(key, ValueType::U32, values.len());
        for value in values {
            self.entries.extend(value.to_le_bytes());
        }
    }

    /// Adds an array of truth values.
    pub fn put_bool_array(&mut self, key: &str, values: &[bool]) {
        self.array(key, ValueType::Bool, values.len());
        self.entries.extend(values.iter().map(|&value| u8::from(value)));
    }

    /// Adds an array of strings.
    pub fn put_strings(&mut self, key: &str, values: &[&str]) {
        self.array(key, ValueType::String, values.len());
        for value in values {
            self.string(value);
        }
    }

    fn array(&mut self, key: &str, kind: ValueType, count: usize) {
        self.key(key, ValueType::Array);
        self.entries.extend((kind as u32).to_le_bytes());
        self.entries.extend((count as u64).to_le_bytes());
    }

    /// Copies a value as it stands in another file, if it is there.
    pub fn copy(&mut self, source: &Gguf, key: &str) {
        self.copy_as(source, key, key);
    }

    /// Copies a value under another key. The alignment is never copied: [`HeaderWriter::finish`] has its own.
    pub fn copy_as(&mut self, source: &Gguf, key: &str, new_key: &str) {
        if new_key == "general.alignment" {
            return;
        }
        if let Some((kind, bytes)) = source.raw(key) {
            self.key(new_key, kind);
            self.entries.extend(bytes);
        }
    }

    /// Closes the header over `tensors` of `source`, in the order given.
    pub fn finish<'a>(self, source: &'a Gguf, tensors: impl IntoIterator<Item = &'a TensorInfo>) -> VirtualGguf {
        let (header, segments, length) = self.laid_out(tensors);
        let files = source.files().map(|(start, file)| (start, Arc::clone(file))).collect();
        VirtualGguf { header, segments, length, files, read: AtomicU64::new(0) }
    }

    /// The header of a file in which the data of `tensors` follow in the order given, wherever they come from: each at the
    /// next multiple of [`HeaderWriter::ALIGNMENT`], the first right behind the header.
    pub fn into_bytes<'a>(self, tensors: impl IntoIterator<Item = &'a TensorInfo>) -> Vec<u8> {
        self.laid_out(tensors).0
    }

    /// The alignment of tensor data in bytes. No key states it, so readers assume this default.
    pub const ALIGNMENT: u64 = 32;

    /// Header, where each tensor stands and comes from, and the length of it all.
    fn laid_out<'a>(self, tensors: impl IntoIterator<Item = &'a TensorInfo>) -> (Vec<u8>, Vec<Segment>, u64) {
        let mut infos = Vec::new();
        let mut segments = Vec::new();
        let mut count = 0_u64;
        let mut data_length = 0_u64;
        for tensor in tensors {
            count += 1;
            infos.extend((tensor.name.len() as u64).to_le_bytes());
            infos.extend(tensor.name.as_bytes());
            infos.extend((tensor.dimensions as u32).to_le_bytes());
            for length in &tensor.shape[..tensor.dimensions] {
                infos.extend(length.to_le_bytes());
            }
            infos.extend(tensor.kind.as_raw().to_le_bytes());
            infos.extend(data_length.to_le_bytes());
            segments.push(Segment { start: data_length, length: tensor.bytes, source: tensor.offset });
            data_length = (data_length + tensor.bytes).next_multiple_of(Self::ALIGNMENT);
        }
        let mut header = Vec::with_capacity(24 + self.entries.len() + infos.len() + Self::ALIGNMENT as usize);
        header.extend(b"GGUF");
        header.extend(3_u32.to_le_bytes());
        header.extend(count.to_le_bytes());
        header.extend(self.entry_count.to_le_bytes());
        header.extend(self.entries);
        header.extend(infos);
        header.resize(header.len().next_multiple_of(Self::ALIGNMENT as usize), 0);
        for segment in &mut segments {
            segment.start += header.len() as u64;
        }
        let length = header.len() as u64 + data_length;
        (header, segments, length)
    }
}

#[derive(Debug)]
struct Segment {
    start: u64,
    length: u64,
    /// Offset in the real file, or in its parts as if they lay one after the other.
    source: u64,
}

/// A readable GGUF image; see the module's words.
#[derive(Debug)]
pub struct VirtualGguf {
    header: Vec<u8>,
    segments: Vec<Segment>,
    length: u64,
    /// Each with where it starts; a tensor never reaches from one into the next.
    files: Vec<(u64, Arc<File>)>,
    read: AtomicU64,
}

impl VirtualGguf {
    /// The length of the image in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The header's bytes, padding included.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// How many bytes of tensor data were read so far; any thread.
    pub fn data_bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Fills `buffer` from `offset` on; returns how many bytes, fewer only at the end of the image.
    ///
    /// # Errors
    /// If the real file can no longer be read.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let position = offset + filled as u64;
            if position >= self.length {
                break;
            }
            let rest = &mut buffer[filled..];
            filled += self.read_part(position, rest)?;
        }
        Ok(filled)
    }

    /// Fills the front of `rest` from the one part that holds `position`; at least a byte.
    fn read_part(&self, position: u64, rest: &mut [u8]) -> io::Result<usize> {
        if let Some(available) = self.header.get(position as usize..).filter(|bytes| !bytes.is_empty()) {
            let count = available.len().min(rest.len());
            rest[..count].copy_from_slice(&available[..count]);
            return Ok(count);
        }
        let next = self.segments.partition_point(|segment| segment.start <= position);
        let inside = next.checked_sub(1).map(|index| &self.segments[index]);
        if let Some(segment) = inside.filter(|segment| position < segment.start + segment.length) {
            let skip = position - segment.start;
            let count = usize::try_from(segment.length - skip).unwrap_or(usize::MAX).min(rest.len());
            let after = self.files.partition_point(|(start, _)| *start <= segment.source);
            let (start, file) = &self.files[after - 1];
            read_exact_at(file, &mut rest[..count], segment.source - start + skip)?;
            self.read.fetch_add(count as u64, Ordering::Relaxed);
            return Ok(count);
        }
        let padding_end = self.segments.get(next).map_or(self.length, |segment| segment.start);
        let count = usize::try_from(padding_end - position).unwrap_or(usize::MAX).min(rest.len());
        rest[..count].fill(0);
        Ok(count)
    }
}
