//! Where a head's tensors come from.
//!
//! A head stands in the file of its backbone, in a GGUF file of its own (or in another model's), or in the safetensors
//! file that its checkpoint ships. Whoever loads or copies one sees the same in each case: the numbers that shape it, and
//! tensors under the names that `clef` files give them.

use std::collections::HashSet;
use std::path::Path;

use clef_llama::gguf::{Gguf, HeaderWriter, TensorInfo, TensorType, Value};

use crate::checkpoint::Checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::expected::expected_tensors;
use crate::layout::{DEFINING, EPSILON, Layout, families, invalid};

/// What the names of a head's tensors may begin with.
const PREFIXES: [&str; 2] = ["", "clef."];
const MAGIC: &[u8; 4] = b"GGUF";

/// A head in a file: everything about it was checked but the values of its weights.
#[derive(Debug)]
pub struct HeadFile<'a> {
    source: Source<'a>,
    layout: Layout,
    /// Under the names that `clef` files have; those of a GGUF file with their place in it.
    tensors: Vec<TensorInfo>,
}

#[derive(Debug)]
enum Source<'a> {
    Gguf(Holder<'a>),
    Checkpoint(Checkpoint),
}

#[derive(Debug)]
enum Holder<'a> {
    Borrowed(&'a Gguf),
    Owned(Gguf),
}

impl Holder<'_> {
    fn gguf(&self) -> &Gguf {
        match self {
            Self::Borrowed(gguf) => gguf,
            Self::Owned(gguf) => gguf,
        }
    }
}

impl HeadFile<'static> {
    /// Opens a file that holds a head: GGUF, or safetensors with a `joint_head_config.json` beside it.
    ///
    /// # Errors
    /// If it cannot be read, holds no head, or one whose parts do not fit each other.
    pub fn open(path: &Path) -> Result<Self> {
        if begins_as_gguf(path)? {
            let gguf = Gguf::open(path)?;
            let (layout, tensors) = read(&gguf)?;
            return Ok(Self { source: Source::Gguf(Holder::Owned(gguf)), layout, tensors });
        }
        let (checkpoint, layout) = Checkpoint::open(path)?;
        let tensors = checkpoint.tensors();
        Ok(Self { source: Source::Checkpoint(checkpoint), layout, tensors })
    }
}

impl<'a> HeadFile<'a> {
    /// The head of an open file.
    ///
    /// # Errors
    /// If it holds no head, or one whose parts do not fit each other.
    pub fn of(gguf: &'a Gguf) -> Result<Self> {
        let (layout, tensors) = read(gguf)?;
        Ok(Self { source: Source::Gguf(Holder::Borrowed(gguf)), layout, tensors })
    }

    /// Whether a tensor's name is one that a head's may have.
    pub fn is_name_of_head(name: &str) -> bool {
        let name = PREFIXES[1..].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
        ["dec.", "decision.", "token_types."].iter().any(|start| name.starts_with(start))
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        match &self.source {
            Source::Gguf(holder) => holder.gguf().path(),
            Source::Checkpoint(checkpoint) => checkpoint.path(),
        }
    }

    /// The file itself, if it is a GGUF file.
    pub fn gguf(&self) -> Option<&Gguf> {
        match &self.source {
            Source::Gguf(holder) => Some(holder.gguf()),
            Source::Checkpoint(_) => None,
        }
    }

    /// The numbers that shape the head.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of its weights.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum()
    }

    /// Its tensors, with the names, shapes and types that they have in a `clef` file. Their offsets are of no
    /// use to others.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The data of a tensor, read now: all of it is in memory then.
    ///
    /// # Errors
    /// If there is no such tensor, the file can no longer be read, or a float of it is NaN or infinite: then every answer
    /// would be.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let missing = || Error::new(ErrorKind::InvalidArgument, format_args!("a head has no tensor {name}"));
        let tensor = self.tensors.iter().find(|tensor| tensor.name == name).ok_or_else(missing)?;
        let data = match &self.source {
            Source::Gguf(holder) => holder.gguf().read_data(tensor)?,
            Source::Checkpoint(checkpoint) => checkpoint.read(name)?.ok_or_else(missing)?,
        };
        if !is_finite(tensor.kind, &data) {
            return Err(invalid(self.path(), format_args!("the tensor {name} holds NaN or infinite values")));
        }
        Ok(data)
    }

    /// Adds the keys that a `clef` file has for its head, temperatures and what else the source says of it included.
    pub fn put_keys(&self, header: &mut HeaderWriter) {
        header.put_str("clef.decision.type", "clef");
        match self.gguf() {
            Some(gguf) => copy_keys(gguf, header),
            None => {
                header.put_u32("clef.decision.routing_block_count", self.layout.routing_blocks as u32);
                header.put_u32("clef.decision.block_count", self.layout.joint_blocks as u32);
                header.put_u32("clef.decision.head_count", self.layout.heads as u32);
            }
        }
        header.put_f32(&format!("clef.{EPSILON}"), self.layout.epsilon);
    }

    /// Whether a key, without what its family begins with, is one of those that [`HeadFile::put_keys`] writes.
    pub fn is_key_of_head(key: &str) -> bool {
        key.starts_with("decision.") || key == EPSILON
    }
}

/// Whether floats are numbers. Of quantized types nothing is known: that is what `--check-tensors` is for.
fn is_finite(kind: TensorType, data: &[u8]) -> bool {
    // All bits of the exponent set.
    let half =
        |exponent: u16| data.as_chunks::<2>().0.iter().all(|bytes| u16::from_le_bytes(*bytes) & exponent != exponent);
    match kind {
        TensorType::F32 => data.as_chunks::<4>().0.iter().all(|bytes| f32::from_le_bytes(*bytes).is_finite()),
        TensorType::F16 => half(0x7c00),
        TensorType::BF16 => half(0x7f80),
        _ => true,
    }
}

/// Copies `decision.*` but for the type; of keys that differ only in how they begin, the one that counts.
fn copy_keys(gguf: &Gguf, header: &mut HeaderWriter) {
    let families = families(gguf);
    for (rank, family) in families.iter().enumerate() {
        for key in gguf.keys() {
            let Some(own) = key.strip_prefix(family.as_str()).filter(|own| own.starts_with("decision.")) else {
                continue;
            };
            let hidden = families[..rank].iter().any(|before| gguf.get(&format!("{before}{own}")).is_some());
            if !hidden && own != "decision.type" {
                header.copy_as(gguf, key, &format!("clef.{own}"));
            }
        }
    }
}

/// The layout and all tensors that it implies, each with its shape and a type that graphs can use.
fn read(gguf: &Gguf) -> Result<(Layout, Vec<TensorInfo>)> {
    let prefix = PREFIXES.into_iter().find(|prefix| gguf.tensor(&format!("{prefix}{DEFINING}")).is_some());
    let prefix = prefix.unwrap_or_default();
    let layout = Layout::read(gguf, prefix)?;
    let mut found = Vec::new();
    for (name, shape, plain) in expected_tensors(&layout) {
        let tensor = gguf
            .tensor(&format!("{prefix}{name}"))
            .ok_or_else(|| invalid(gguf.path(), format_args!("the tensor {prefix}{name} is missing")))?;
        let mut full = [1; 4];
        full[..shape.len()].copy_from_slice(&shape);
        if tensor.shape.map(|length| length as usize) != full {
            let what = format!("the tensor {prefix}{name} has the shape {:?}, {full:?} is expected", tensor.shape);
            return Err(invalid(gguf.path(), what));
        }
        if (plain && tensor.kind != TensorType::F32) || !tensor.kind.is_weight() {
            return Err(invalid(gguf.path(), format_args!("the tensor {prefix}{name} has the type {:?}", tensor.kind)));
        }
        found.push(TensorInfo { name, ..tensor.clone() });
    }
    // What is not known may change the answer: numbers that name fewer blocks than there are, for one.
    let known: HashSet<&str> = found.iter().map(|tensor| tensor.name.as_str()).collect();
    let mut of_head = gguf.tensors().iter().filter_map(|tensor| tensor.name.strip_prefix(prefix));
    if let Some(unknown) = of_head.find(|name| HeadFile::is_name_of_head(name) && !known.contains(name)) {
        let (routing, joint) = (layout.routing_blocks, layout.joint_blocks);
        let what = format!("the tensor {prefix}{unknown} belongs to no head of {routing} + {joint} blocks");
        return Err(invalid(gguf.path(), what));
    }
    if let Some(kind) = gguf.get("clef.decision.type").filter(|kind| *kind != Value::String(b"clef")) {
        let kind = kind.as_str().unwrap_or("not a text");
        let kind: String = kind.chars().take(64).collect();
        return Err(invalid(gguf.path(), format_args!("clef.decision.type is {kind:?}, only \"clef\" is known")));
    }
    Ok((layout, found))
}

fn begins_as_gguf(path: &Path) -> Result<bool> {
    use std::io::Read as _;
    let shown = path.display();
    let cannot = |e: std::io::Error| Error::new(ErrorKind::Io, format_args!("cannot open {shown}: {e}"));
    // Before opening: a pipe would wait for somebody to write to it.
    if !std::fs::metadata(path).map_err(cannot)?.is_file() {
        return Err(Error::new(ErrorKind::InvalidFile, format_args!("{shown} is not a file")));
    }
    let mut start = Vec::new();
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(cannot)?;
    Ok(start == MAGIC)
}
