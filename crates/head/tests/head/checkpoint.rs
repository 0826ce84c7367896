//! Heads in files of their own: as checkpoints ship them, and in GGUF files with other names.

use std::path::{Path, PathBuf};

use clef_head::{ErrorKind, HeadFile};
use clef_llama::gguf::{Gguf, TensorInfo, TensorType};
use clef_testkit::{Random, Tiny, assert_close, tiny, write_checkpoint};

use crate::files::rewritten;

/// The head of clef-tiny as a checkpoint would ship it, in a folder of its own.
fn checkpoint() -> (tempfile::TempDir, PathBuf) {
    checkpoint_of(false)
}

fn checkpoint_of(halved: bool) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("joint_head.safetensors");
    write_checkpoint(&Gguf::open(&tiny(Tiny::F32)).unwrap(), &path, halved);
    (folder, path)
}

#[track_caller]
fn refused(path: &Path, kind: ErrorKind, words: &str) {
    let error = HeadFile::open(path).expect_err(words);
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error} does not say {words:?}");
    assert!(!error.to_string().contains('\n'), "{error}");
}

fn assert_same_tensors(ours: &HeadFile<'_>, whole: &HeadFile<'_>) {
    assert_eq!(ours.layout(), whole.layout());
    let described = |tensor: &TensorInfo| TensorInfo { offset: 0, ..tensor.clone() };
    let all = |file: &HeadFile<'_>| file.tensors().iter().map(described).collect::<Vec<_>>();
    assert_eq!(all(ours), all(whole));
    for tensor in whole.tensors() {
        assert!(ours.read(&tensor.name).unwrap() == whole.read(&tensor.name).unwrap(), "{}", tensor.name);
    }
}

#[test]
fn a_checkpoints_head_is_the_gguf_files_to_the_bit() {
    let gguf = Gguf::open(&tiny(Tiny::F32)).unwrap();
    let whole = HeadFile::of(&gguf).unwrap();
    let (_folder, path) = checkpoint();
    assert_same_tensors(&HeadFile::open(&path).unwrap(), &whole);
    assert!(whole.read("output.weight").is_err());
}

#[test]
fn of_a_checkpoint_of_16_bits_matrices_stay_and_vectors_are_widened() {
    let gguf = Gguf::open(&tiny(Tiny::F32)).unwrap();
    let whole = HeadFile::of(&gguf).unwrap();
    let (_folder, path) = checkpoint_of(true);
    let ours = HeadFile::open(&path).unwrap();
    // The types are those that the converter chooses for 16 bits.
    let converted = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    let kinds = |file: &HeadFile<'_>| file.tensors().iter().map(|tensor| tensor.kind).collect::<Vec<_>>();
    assert_eq!(kinds(&ours), kinds(&HeadFile::of(&converted).unwrap()));
    let cut = |value: &[u8]| [value[2], value[3]];
    for (tensor, wide) in ours.tensors().iter().zip(whole.tensors()) {
        let name = &tensor.name;
        assert_eq!((name, tensor.shape, tensor.dimensions), (&wide.name, wide.shape, wide.dimensions));
        let (data, expected) = (ours.read(name).unwrap(), whole.read(name).unwrap());
        assert_eq!(data.len() as u64, tensor.bytes, "{name}");
        if name == "decision.scales" {
            let floats = |bytes: &[u8]| {
                let float = |b: &[u8]| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                bytes.chunks_exact(4).map(float).collect::<Vec<_>>()
            };
            // A step of the logarithm is 1/64.
            assert_close(name, &floats(&data), &floats(&expected), 24.5 / 64.0);
        } else if wide.dimensions == 1 || name == "token_types.weight" {
            assert_eq!(tensor.kind, TensorType::F32, "{name}");
            let same = |(ours, wide): (&[u8], &[u8])| ours[..2] == [0, 0] && ours[2..] == cut(wide);
            assert!(data.chunks_exact(4).zip(expected.chunks_exact(4)).all(same), "{name}");
        } else {
            assert_eq!(tensor.kind, TensorType::BF16, "{name}");
            assert!(data == expected.chunks_exact(4).flat_map(cut).collect::<Vec<u8>>(), "{name}");
        }
    }
}

/// `CLEF_CHECKPOINT_HEAD=FILE cargo test -p clef-head -- --ignored`: the real thing, which is too large to commit.
#[test]
#[ignore = "needs the head that the checkpoint of clef-tiny ships"]
fn the_head_that_the_checkpoint_ships_is_the_gguf_files_to_the_bit() {
    let path = std::env::var_os("CLEF_CHECKPOINT_HEAD").expect("CLEF_CHECKPOINT_HEAD names joint_head.safetensors");
    let gguf = Gguf::open(&tiny(Tiny::F32)).unwrap();
    assert_same_tensors(&HeadFile::open(Path::new(&path)).unwrap(), &HeadFile::of(&gguf).unwrap());
}

#[test]
fn names_with_a_prefix_are_found() {
    let prefixed = rewritten(
        &tiny(Tiny::F32),
        |_| {},
        |tensors| {
            tensors.retain(|tensor| HeadFile::is_name_of_head(&tensor.name));
            tensors.iter_mut().for_each(|tensor| tensor.name = format!("clef.{}", tensor.name));
        },
    );
    let gguf = Gguf::open(&tiny(Tiny::F32)).unwrap();
    assert_same_tensors(&HeadFile::open(prefixed.path()).unwrap(), &HeadFile::of(&gguf).unwrap());
}

#[test]
fn a_head_of_another_kind_is_refused() {
    let file = rewritten(&tiny(Tiny::BF16), |header| header.put_str("clef.decision.type", "oracle"), |_| {});
    refused(file.path(), ErrorKind::InvalidFile, "oracle");
}

#[test]
fn files_that_are_no_heads_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let written = |name: &str, bytes: &[u8]| {
        std::fs::write(at(name), bytes).unwrap();
        at(name)
    };
    refused(&at("missing"), ErrorKind::Io, "cannot open");
    refused(folder.path(), ErrorKind::InvalidFile, "is not a file");
    for bytes in [&b""[..], b"GGU", b"12345678", b"this is not a head, but long enough to be looked at"] {
        refused(&written("text", bytes), ErrorKind::InvalidFile, "neither a GGUF nor a safetensors file");
    }
    let file = |header: &str, data: &[u8]| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat();
    let huge = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
    let tensor = |rest: &str| format!(r#"{{"a": {{"dtype": "F32", "shape": [2], {rest}}}}}"#);
    for (bytes, words) in [
        (huge, "at most 1048576 are allowed"),
        (file("{]", b""), "not as it should be"),
        (file("{\"a\": 1}", b""), "not as it should be"),
        (file(&"{\"a\":".repeat(2000), b""), "not as it should be"),
        (file(&tensor(r#""data_offsets": [0, 4]"#), &[0; 4]), "does not take 4 bytes"),
        (file(&tensor(r#""data_offsets": [8, 0]"#), &[0; 8]), "before it starts"),
        (file(&tensor(r#""data_offsets": [0, 8]"#), &[0; 7]), "cut off"),
        (file(&tensor(r#""data_offsets": [0, 18446744073709551615]"#), &[0; 7]), "cut off"),
        (file(&tensor(r#""data_offsets": [4, 12]"#), &[0; 12]), "leave a gap"),
        (file(&tensor(r#""data_offsets": [0, 8]"#), &[0; 9]), "1 bytes belong to no tensor"),
        (file(&tensor(r#""data_offsets": [0, 8]"#).replace("F32", "F64"), &[0; 8]), "F64"),
        (file(&tensor(r#""data_offsets": [0, 8]"#).replace("[2]", "[4294967296, 4294967296, 9]"), &[0; 8]), "shape"),
        (file(&tensor(r#""data_offsets": [0, 8]"#).replace("[2]", "[1, 1, 1, 1, 2]"), &[0; 8]), "5 dimensions"),
        (file(&tensor(r#""data_offsets": [0, 8]"#).replace("\"a\"", "\"\""), &[0; 8]), "name has 0 bytes"),
        (file(&tensor(r#""data_offsets": [0, 8]"#), &[0; 8]), "must lie beside it"),
    ] {
        refused(
            &written("x.safetensors", &bytes),
            if words.contains("beside") { ErrorKind::Io } else { ErrorKind::InvalidFile },
            words,
        );
    }
    let (_folder, sound) = checkpoint();
    std::fs::copy(sound.with_file_name("joint_head_config.json"), at("joint_head_config.json")).unwrap();
    refused(&at("x.safetensors"), ErrorKind::InvalidFile, "holds no whole decision head: the tensor ");
}

#[test]
fn numbers_that_contradict_the_checkpoints_tensors_are_refused() {
    let (_folder, path) = checkpoint();
    let config = path.with_file_name("joint_head_config.json");
    let sound = std::fs::read_to_string(&config).unwrap();
    for (from, to, words) in [
        ("\"hidden_size\":256", "\"hidden_size\":320", "256, 320"),
        ("\"width\":256", "\"width\":0", "width must be a number from 1"),
        ("\"width\":256", "\"width\":1e300", "joint_head_config.json"),
        ("\"width\":256", "\"width\":128", "is expected"),
        ("\"heads\":4", "\"heads\":3", "3 attention heads"),
        ("\"layers\":4", "\"layers\":5", "layers.4."),
        ("\"layers\":4", "\"layers\":3", "belongs to no head of the shape that"),
        ("\"layers\":4", "\"layers\":100000", "layers must be a number"),
        ("\"feedforward\":512", "\"feedforward\":256", "is expected"),
        ("\"heads\":4,", "", "missing field"),
        ("{", "[", "joint_head_config.json"),
    ] {
        let changed = sound.replacen(from, to, 1);
        assert_ne!(changed, sound, "{from}");
        std::fs::write(&config, changed).unwrap();
        refused(&path, ErrorKind::InvalidFile, words);
    }
    std::fs::write(&config, " ".repeat(1 << 17)).unwrap();
    refused(&path, ErrorKind::InvalidFile, "larger than");
    // A configuration that bears the file's own name goes before the usual one.
    let renamed = path.with_file_name("other.safetensors");
    std::fs::rename(&path, &renamed).unwrap();
    refused(&renamed, ErrorKind::InvalidFile, "larger than");
    std::fs::write(path.with_file_name("other_config.json"), &sound).unwrap();
    assert!(HeadFile::open(&renamed).is_ok());
}

#[test]
fn values_that_are_no_numbers_are_named() {
    for (halved, value) in [(false, &f32::NAN.to_le_bytes()[..]), (true, &[0x80, 0xff])] {
        let (_folder, path) = checkpoint_of(halved);
        let mut bytes = std::fs::read(&path).unwrap();
        let end = bytes.len();
        bytes[end - value.len()..].copy_from_slice(value);
        std::fs::write(&path, &bytes).unwrap();
        let file = HeadFile::open(&path).unwrap();
        let errors: Vec<_> = file.tensors().iter().filter_map(|tensor| file.read(&tensor.name).err()).collect();
        let [error] = &errors[..] else { panic!("{errors:?}") };
        assert_eq!(error.kind(), ErrorKind::InvalidFile);
        assert!(error.to_string().contains("holds NaN or infinite values"), "{error}");
    }
}

#[test]
fn damaged_checkpoints_are_read_or_refused() {
    let (_folder, path) = checkpoint();
    let whole = std::fs::read(&path).unwrap();
    for tenth in 0..10 {
        std::fs::write(&path, &whole[..whole.len() * tenth / 10]).unwrap();
        refused(&path, ErrorKind::InvalidFile, if tenth == 0 { "neither" } else { "cut off" });
    }
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let mut opened = 0;
    for seed in 1..=200 {
        let mut random = Random::new(seed);
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            bytes[random.below(header)] ^= 1 << random.below(8);
        }
        std::fs::write(&path, &bytes).unwrap();
        match HeadFile::open(&path) {
            Ok(file) => {
                file.tensors().iter().for_each(|tensor| assert!(file.read(&tensor.name).is_ok(), "seed {seed}"));
                opened += 1;
            }
            Err(error) => assert!(error.to_string().lines().count() == 1, "seed {seed}: {error}"),
        }
    }
    assert!(opened < 200, "the flips hit nothing");
}
