//! One file of a backbone and a head, and a head's own file.
//!
//! Many published files are plain backbones; with the head put into them they decide everywhere, in llama-server as well.
//! Tensors are copied byte for byte, some megabytes at a time, so memory does not grow with the model.

use std::path::Path;

use clef_head::{Head, HeadFile};
use clef_llama::Backbone;
use clef_llama::gguf::{Gguf, HeaderWriter, TensorInfo, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::inspect::{HEAD, check_widths};
use crate::output::Output;

/// Bytes that are copied at a time.
const PART: usize = 4 << 20;
const ARCHITECTURE: &str = "general.architecture";
const TEMPLATES: &str = "tokenizer.chat_templates";
const TEMPLATE: &str = "tokenizer.chat_template.systemone";
/// What the template is listed as.
const TEMPLATE_NAME: &str = "systemone";
/// The template of the released files, by which llama-server writes prompts.
const RELEASED_TEMPLATE: &str = include_str!("systemone.jinja");

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The size of the file.
    pub bytes: u64,
    /// Tensors of the backbone in it.
    pub backbone_tensors: usize,
    /// Tensors of the head in it.
    pub head_tensors: usize,
}

/// Writes a file that holds the backbone of one file and the head of another, as released files do: it decides without
/// further ado, here and in llama-server. `progress` is told bytes written and bytes in all, and stops it by returning
/// false. The disk needs room for the whole file, also where it replaces one.
///
/// The head may be in any form that [`ModelOptions::head`](crate::ModelOptions::head) takes; one that `backbone` has
/// already is left out.
///
/// # Errors
/// If either file is not what it should be, they do not belong together, `output` exists (unless `overwrite`), or it
/// cannot be written, or `progress` stopped it. What was begun is removed.
pub fn attach_head(
    backbone: &Path,
    head: &Path,
    output: &Path,
    overwrite: bool,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Written> {
    let gguf = Gguf::open(backbone)?;
    let checked = Backbone::new(&gguf)?;
    let head = HeadFile::open(head)?;
    if let Ok(own) = HeadFile::of(&gguf) {
        tracing::warn!(
            "{}: its own head is left out, that of {} takes its place",
            own.path().display(),
            head.path().display()
        );
    }
    check_widths(&head, checked.hyperparameters(), &gguf)?;
    Head::check(&head, &gguf)?;
    let tensors: Vec<&TensorInfo> =
        gguf.tensors().iter().filter(|tensor| !HeadFile::is_name_of_head(&tensor.name)).collect();
    let header = whole_header(&gguf, &head)?.into_bytes(tensors.iter().copied().chain(head.tensors()));
    let mut writing = Writing::begin(output, overwrite, progress)?;
    writing.expect(&header, tensors.iter().copied().chain(head.tensors()));
    writing.put(&header)?;
    for tensor in &tensors {
        writing.copy(&gguf, tensor)?;
    }
    writing.put_head(&head)?;
    let bytes = writing.output.place()?;
    Ok(Written { bytes, backbone_tensors: tensors.len(), head_tensors: head.tensors().len() })
}

/// Writes a GGUF file that holds the head of `model` alone, which [`attach_head`] and
/// [`ModelOptions::head`](crate::ModelOptions::head) take. `progress` is as there.
///
/// # Errors
/// If `model` holds no head, `output` exists (unless `overwrite`), or it cannot be written. What was begun is removed.
pub fn extract_head(
    model: &Path,
    output: &Path,
    overwrite: bool,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Written> {
    let head = HeadFile::open(model)?;
    let mut header = HeaderWriter::default();
    header.put_str(ARCHITECTURE, HEAD);
    if let Some(gguf) = head.gguf() {
        header.copy(gguf, "general.name");
    }
    head.put_keys(&mut header);
    if let Some(gguf) = head.gguf() {
        header.copy(gguf, TEMPLATE);
    }
    let header = header.into_bytes(head.tensors());
    let mut writing = Writing::begin(output, overwrite, progress)?;
    writing.expect(&header, head.tensors());
    writing.put(&header)?;
    writing.put_head(&head)?;
    let bytes = writing.output.place()?;
    Ok(Written { bytes, backbone_tensors: 0, head_tensors: head.tensors().len() })
}

/// The keys of a whole model: the backbone's under `clef.`, the head's in place of any that the backbone has.
fn whole_header(gguf: &Gguf, head: &HeadFile<'_>) -> Result<HeaderWriter> {
    let own = format!("{}.", gguf.get_str(ARCHITECTURE).unwrap_or_default());
    let mut header = HeaderWriter::default();
    header.put_str(ARCHITECTURE, "clef");
    for key in gguf.keys() {
        match key.strip_prefix(&own).or_else(|| key.strip_prefix("clef.")) {
            Some(key) if HeadFile::is_key_of_head(key) => {}
            Some(suffix) if key.starts_with(&own) => header.copy_as(gguf, key, &format!("clef.{suffix}")),
            // A key of another architecture's would stand beside the backbone's own.
            Some(_) => {}
            None if key == ARCHITECTURE || key == TEMPLATE || key == TEMPLATES || key.starts_with("split.") => {}
            None => header.copy(gguf, key),
        }
    }
    head.put_keys(&mut header);
    let source = [head.gguf(), Some(gguf)].into_iter().flatten().find(|source| source.get_str(TEMPLATE).is_some());
    match source {
        Some(source) => header.copy(source, TEMPLATE),
        None => header.put_str(TEMPLATE, RELEASED_TEMPLATE),
    }
    let mut names = Vec::new();
    if let Some(Value::Array(listed)) = gguf.get(TEMPLATES) {
        for name in listed.strings(TEMPLATES)? {
            let name = std::str::from_utf8(name)
                .map_err(|_| Error::new(ErrorKind::InvalidFile, format_args!("{TEMPLATES} is not text")))?;
            names.push(name);
        }
    }
    if !names.contains(&TEMPLATE_NAME) {
        names.push(TEMPLATE_NAME);
    }
    header.put_strings(TEMPLATES, &names);
    Ok(header)
}

/// A GGUF file on its way to the disk.
struct Writing<'a> {
    output: Output,
    written: u64,
    expected: u64,
    progress: &'a mut dyn FnMut(u64, u64) -> bool,
    buffer: Vec<u8>,
}

impl<'a> Writing<'a> {
    fn begin(target: &Path, overwrite: bool, progress: &'a mut dyn FnMut(u64, u64) -> bool) -> Result<Self> {
        let output = Output::create(target, overwrite)?;
        Ok(Self { output, written: 0, expected: 0, progress, buffer: vec![0; PART] })
    }

    /// What will be written, for the progress.
    fn expect<'t>(&mut self, header: &[u8], tensors: impl IntoIterator<Item = &'t TensorInfo>) {
        self.expected = header.len() as u64 + tensors.into_iter().map(|tensor| tensor.bytes).sum::<u64>();
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.write(bytes)?;
        self.tell(bytes.len() as u64)
    }

    fn tell(&mut self, more: u64) -> Result<()> {
        self.written += more;
        match (self.progress)(self.written, self.expected) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Stopped, "stopped; nothing was written")),
        }
    }

    fn copy(&mut self, gguf: &Gguf, tensor: &TensorInfo) -> Result<()> {
        let mut from = 0;
        while from < tensor.bytes {
            let count = usize::try_from(tensor.bytes - from).unwrap_or(PART).min(PART);
            gguf.read_part(tensor, from, &mut self.buffer[..count])?;
            self.output.write(&self.buffer[..count])?;
            self.tell(count as u64)?;
            from += count as u64;
        }
        self.output.pad(HeaderWriter::ALIGNMENT)
    }

    fn put_head(&mut self, head: &HeadFile<'_>) -> Result<()> {
        for tensor in head.tensors() {
            self.put(&head.read(&tensor.name)?)?;
            self.output.pad(HeaderWriter::ALIGNMENT)?;
        }
        Ok(())
    }
}
