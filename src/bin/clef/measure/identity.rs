//! Which answers belong together: those of one model, opened in one way.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clef_api::ModelOptions;
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;

/// Read of each file: its beginning, which holds all metadata but the longest, and places all over it.
const BEGINNING: u64 = 1 << 20;
const PLACES: u64 = 64;
const PLACE: u64 = 1 << 14;

/// A text that differs where answers may: other weights, another head, options that move results.
pub(super) fn identity(model: &Path, options: &ModelOptions) -> Result<String, Failure> {
    let inspection = clef_api::inspect(model, options)?;
    let mut digest = Sha256::new();
    let parts = inspection.parts.iter().map(PathBuf::as_path);
    for path in parts.chain([options.head.as_deref(), options.projector.as_deref()].into_iter().flatten()) {
        sample(path, &mut digest).with_context(|| format!("cannot read {}", path.display()))?;
    }
    // The numbers of a checkpoint's head are in a file of their own.
    digest.update(format!("{:?}", inspection.head.map(|head| head.layout)));
    // Threads, memory and places change no answer; chunks do, on quantized weights.
    let ModelOptions { context_tokens, chunk_tokens, image_min_tokens, image_max_tokens, gpu_layers, .. } = options;
    let numbers = (context_tokens, chunk_tokens, image_min_tokens, image_max_tokens, gpu_layers);
    let ModelOptions { flash_attention, cache_keys, cache_values, repack, neutral_ids, overrides, .. } = options;
    let ways = (flash_attention, cache_keys, cache_values, repack, neutral_ids, overrides);
    // Which of them a file was that was sampled above.
    let given = (options.head.is_some(), options.projector.is_some());
    digest.update(format!("{numbers:?} {ways:?} {given:?}"));
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
        // The last place ends with the file.
        read((bytes / PLACES * place + bytes % PLACES * place / PLACES).saturating_sub(PLACE), PLACE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clef_testkit::{built_in_model, split_model};

    use super::*;

    /// A copy with a byte changed, so far from the end.
    fn changed(path: &Path, copy: &Path, from_end: usize) {
        let mut bytes = std::fs::read(path).expect("it is there");
        let place = bytes.len() - from_end;
        bytes[place] ^= 1;
        std::fs::write(copy, bytes).expect("written");
    }

    #[test]
    fn other_weights_another_head_and_other_options_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let (model, tuned) = (built_in_model(), folder.path().join("tuned.gguf"));
        changed(&model, &tuned, 5);
        let with = |model: &Path, change: &dyn Fn(&mut ModelOptions)| {
            let mut options = ModelOptions::default();
            change(&mut options);
            identity(model, &options).expect("readable")
        };
        let plain = with(&model, &|_| {});
        assert_eq!(plain, with(&model, &|options| options.threads = Some(3)));
        let others = [
            with(&tuned, &|_| {}),
            with(&model, &|options| options.head = Some(tuned.clone())),
            with(&model, &|options| options.neutral_ids = true),
            with(&model, &|options| options.chunk_tokens = Some(64)),
        ];
        for (index, other) in others.iter().enumerate() {
            assert!(*other != plain && !others[..index].contains(other), "{index}");
        }
        assert!(identity(Path::new("no-such-file"), &ModelOptions::default()).is_err());
    }

    #[test]
    fn of_a_split_model_every_part_counts_and_none_is_preferred() {
        let folder = tempfile::tempdir().expect("a folder");
        let parts = split_model(&built_in_model(), folder.path(), "x", 3);
        let of = |part: usize| identity(&parts[part], &ModelOptions::default()).expect("readable");
        let whole = of(0);
        assert_eq!(of(2), whole);
        changed(&parts[2].clone(), &parts[2], 5);
        assert_ne!(of(0), whole);
    }
}
