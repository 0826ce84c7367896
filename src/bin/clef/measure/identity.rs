//! Which answers belong together: those of one model, opened in one way.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::Context as _;
use clef_api::ModelOptions;
use sha2::{Digest as _, Sha256};

/// Read of each file: its beginning, which holds all metadata but the longest, and places all over it.
const BEGINNING: u64 = 1 << 20;
const PLACES: u64 = 64;
const PLACE: u64 = 1 << 14;

/// A text that differs where answers may: other weights, another head, options that move results.
pub(crate) fn identity(model: &Path, options: &ModelOptions) -> anyhow::Result<String> {
    let mut digest = Sha256::new();
    for path in [Some(model), options.head.as_deref(), options.projector.as_deref()] {
        match path {
            Some(path) => sample(path, &mut digest).with_context(|| format!("cannot read {}", path.display()))?,
            None => digest.update([0]),
        }
    }
    // Threads, memory and places change no answer; chunks do, on quantized weights.
    let ModelOptions { context_tokens, chunk_tokens, image_min_tokens, image_max_tokens, gpu_layers, .. } = options;
    let numbers = (context_tokens, chunk_tokens, image_min_tokens, image_max_tokens, gpu_layers);
    let ModelOptions { flash_attention, cache_keys, cache_values, repack, neutral_ids, overrides, .. } = options;
    let ways = (flash_attention, cache_keys, cache_values, repack, neutral_ids, overrides);
    digest.update(format!("{numbers:?} {ways:?}"));
    Ok(digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

/// Of files that differ, a fine-tune and its origin among them, hardly a place is equal.
fn sample(path: &Path, digest: &mut Sha256) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    digest.update(bytes.to_le_bytes());
    let mut read = |from: u64, count: u64| -> std::io::Result<()> {
        file.seek(SeekFrom::Start(from))?;
        let mut part = Vec::new();
        file.by_ref().take(count).read_to_end(&mut part)?;
        digest.update(&part);
        Ok(())
    };
    read(0, BEGINNING)?;
    for place in 1..=PLACES {
        read((bytes / PLACES * place).saturating_sub(PLACE), PLACE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_weights_another_head_and_other_options_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            path
        };
        let mut weights = vec![7; 3 << 20];
        let model = write("a.gguf", &weights);
        weights[(3 << 20) - 5] = 8;
        let tuned = write("b.gguf", &weights);
        let options = ModelOptions::default();
        let with = |change: &dyn Fn(&mut ModelOptions)| {
            let mut options = options.clone();
            change(&mut options);
            identity(&model, &options).expect("readable")
        };
        let plain = with(&|_| {});
        assert_eq!(plain, with(&|options| options.threads = Some(3)));
        let others = [
            identity(&tuned, &options).expect("readable"),
            with(&|options| options.head = Some(tuned.clone())),
            with(&|options| options.projector = Some(tuned.clone())),
            with(&|options| options.neutral_ids = true),
            with(&|options| options.chunk_tokens = Some(64)),
        ];
        for (index, other) in others.iter().enumerate() {
            assert!(*other != plain && !others[..index].contains(other), "{index}");
        }
        assert!(identity(Path::new("no-such-file"), &options).is_err());
    }
}
