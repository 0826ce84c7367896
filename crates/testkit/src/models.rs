//! Models in other files than the fixtures': without a head, in parts.

use std::path::{Path, PathBuf};

use clef_llama::gguf::{Gguf, HeaderWriter, TensorInfo};

/// Writes a GGUF file that `header` begins, with `tensors` of `source`: names may be others than there.
///
/// # Panics
/// If the file cannot be written.
pub fn write_image<'a>(
    path: &Path,
    source: &'a Gguf,
    header: HeaderWriter,
    tensors: impl IntoIterator<Item = &'a TensorInfo>,
) {
    let image = header.finish(source, tensors);
    let mut bytes = vec![0; image.length() as usize];
    image.read_at(0, &mut bytes).expect("the source can be read");
    std::fs::write(path, bytes).expect("the folder can be written");
}

/// Whether a tensor is a head's.
pub fn is_of_head(tensor: &TensorInfo) -> bool {
    ["dec.", "decision.", "token_types."].iter().any(|prefix| tensor.name.starts_with(prefix))
}

/// Writes a model's backbone as a plain `qwen35` file, as quantizers publish it: `backbone.gguf` in `folder`.
///
/// # Panics
/// If the model cannot be read, or the file not be written.
pub fn plain_backbone(model: &Path, folder: &Path) -> PathBuf {
    let source = Gguf::open(model).expect("the model can be read");
    let mut header = HeaderWriter::default();
    header.put_str("general.architecture", "qwen35");
    let of_clef = ["general.architecture", "tokenizer.chat_template.systemone", "tokenizer.chat_templates"];
    for key in source.keys() {
        match key.strip_prefix("clef.") {
            Some(suffix) if suffix.starts_with("decision.") || suffix == "attention.layer_norm_epsilon" => {}
            Some(suffix) => header.copy_as(&source, key, &format!("qwen35.{suffix}")),
            None if of_clef.contains(&key) => {}
            None => header.copy(&source, key),
        }
    }
    let path = folder.join("backbone.gguf");
    write_image(&path, &source, header, source.tensors().iter().filter(|tensor| !is_of_head(tensor)));
    path
}

/// Writes a model in parts, as `gguf-split` does: metadata in the first, numbers of the split in all. Returns their paths,
/// `NAME-00001-of-0000N.gguf` and so on in `folder`.
///
/// # Panics
/// If the model cannot be read, or the files not be written.
pub fn split_model(model: &Path, folder: &Path, name: &str, parts: usize) -> Vec<PathBuf> {
    let source = Gguf::open(model).expect("the model can be read");
    let tensors = source.tensors();
    let path = |number: usize| folder.join(format!("{name}-{:05}-of-{parts:05}.gguf", number + 1));
    for (number, part) in tensors.chunks(tensors.len().div_ceil(parts)).enumerate() {
        let mut header = HeaderWriter::default();
        if number == 0 {
            source.keys().for_each(|key| header.copy(&source, key));
        }
        put_split_numbers(&mut header, number, parts, tensors.len());
        write_image(&path(number), &source, header, part);
    }
    (0..parts).map(path).collect()
}

/// The keys that `gguf-split` writes into part `number`, from zero.
pub fn put_split_numbers(header: &mut HeaderWriter, number: usize, parts: usize, tensors: usize) {
    header.put_u16("split.no", number as u16);
    header.put_u16("split.count", parts as u16);
    header.put_u32("split.tensors.count", tensors as u32);
}
