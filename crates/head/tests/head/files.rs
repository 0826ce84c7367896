//! Model files with something changed.

use std::path::Path;

use clef_llama::gguf::{Gguf, HeaderWriter, TensorInfo, TensorType};
use clef_testkit::{Tiny, tiny};
use tempfile::NamedTempFile;

/// A header like that of `source`, with keys put last (they replace those of the same name) and tensors changed.
fn changed_header(
    source: &Gguf,
    put: impl FnOnce(&mut HeaderWriter),
    change: impl FnOnce(&mut Vec<TensorInfo>),
) -> clef_llama::gguf::VirtualGguf {
    // What `put` writes is found by reading it back.
    let mut puts = HeaderWriter::default();
    put(&mut puts);
    let written = puts.finish(source, []);
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), written.header()).unwrap();
    let fresh = Gguf::open(file.path()).unwrap();
    let mut header = HeaderWriter::default();
    source.keys().filter(|key| fresh.get(key).is_none()).for_each(|key| header.copy(source, key));
    fresh.keys().for_each(|key| header.copy(&fresh, key));
    let mut tensors = source.tensors().to_vec();
    change(&mut tensors);
    header.finish(source, &tensors)
}

pub(crate) fn rewritten(
    path: &Path,
    put: impl FnOnce(&mut HeaderWriter),
    change: impl FnOnce(&mut Vec<TensorInfo>),
) -> NamedTempFile {
    let source = Gguf::open(path).unwrap();
    let image = changed_header(&source, put, change);
    let mut bytes = vec![0; image.length() as usize];
    assert_eq!(image.read_at(0, &mut bytes).unwrap(), bytes.len());
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

/// The same with zeros for data, which take no room on the disk.
pub(crate) fn hollow_copy(
    source: &Gguf,
    put: impl FnOnce(&mut HeaderWriter),
    change: impl FnOnce(&mut Vec<TensorInfo>),
) -> NamedTempFile {
    let image = changed_header(source, put, change);
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), image.header()).unwrap();
    file.as_file().set_len(image.length()).unwrap();
    file
}

/// A head of other widths and as many blocks of each sort, all of zeros.
pub(crate) fn hollow(hidden: u64, width: u64, blocks: u32) -> NamedTempFile {
    let source = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    let translate = |length: u64, is_hidden: bool| match length {
        256 => {
            if is_hidden {
                hidden
            } else {
                width
            }
        }
        512 => width,
        1024 => 4 * width,
        other => other,
    };
    let resized = |tensor: &TensorInfo, name: String| {
        let reads_hidden =
            name.starts_with("decision.proj_") || name == "output.weight" || name.contains("hidden_norm");
        let mut shape = tensor.shape;
        shape[0] = translate(shape[0], reads_hidden);
        shape[1] = translate(shape[1], false);
        let bytes = 4 * shape.iter().product::<u64>();
        TensorInfo { name, shape, kind: TensorType::F32, bytes, offset: 0, dimensions: tensor.dimensions }
    };
    hollow_copy(
        &source,
        |header| {
            header.put_u32("clef.decision.head_count", width as u32);
            header.put_u32("clef.decision.routing_block_count", blocks);
            header.put_u32("clef.decision.block_count", blocks);
        },
        |tensors| {
            let mut all = Vec::new();
            for tensor in tensors.iter() {
                let block = |index: u32, from: &str| {
                    tensor.name.strip_prefix(from).map(|rest| format!("dec.blk.{index}.{rest}"))
                };
                all.extend((0..blocks).filter_map(|index| Some(resized(tensor, block(index, "dec.blk.0.")?))));
                all.extend((blocks..2 * blocks).filter_map(|index| Some(resized(tensor, block(index, "dec.blk.2.")?))));
                let single = tensor.name.starts_with("decision.") || tensor.name == "token_types.weight";
                if single || tensor.name == "output.weight" {
                    all.push(resized(tensor, tensor.name.clone()));
                }
            }
            *tensors = all;
        },
    )
}
