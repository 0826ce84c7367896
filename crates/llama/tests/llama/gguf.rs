//! The reader on sound, cut, flipped and hostile files.

use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clef_llama::ErrorKind;
use clef_llama::gguf::{Gguf, Value, ValueType};
use clef_llama::{Backbone, Result};
use clef_testkit::{Tiny, fixture, tiny};

use crate::ALLOCATOR;
use crate::support::{Random, kind, written};

fn open(bytes: &[u8]) -> Result<Gguf> {
    Gguf::open(written(bytes).path())
}

fn array<'a>(gguf: &'a Gguf, key: &str) -> clef_llama::gguf::Array<'a> {
    match gguf.get(key) {
        Some(Value::Array(array)) => array,
        other => panic!("{key} is {other:?}"),
    }
}

/// Facts from a listing made with llama.cpp's own reader.
#[test]
fn the_fixtures_read_as_llama_cpp_lists_them() {
    let gguf = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    assert_eq!((gguf.keys().count(), gguf.tensors().len(), gguf.file_bytes()), (41, 216, 19_446_176));
    assert_eq!((gguf.alignment(), gguf.get_str("general.architecture")), (32, Some("clef")));
    for (name, shape, dimensions, kind) in [
        ("output.weight", [256, 4096, 1, 1], 2, "BF16"),
        ("token_embd.weight", [256, 4096, 1, 1], 2, "BF16"),
        ("output_norm.weight", [256, 1, 1, 1], 1, "F32"),
        ("blk.0.ssm_a", [4, 1, 1, 1], 1, "F32"),
        ("blk.2.ssm_conv1d.weight", [4, 512, 1, 1], 2, "F32"),
        ("blk.3.attn_q.weight", [256, 512, 1, 1], 2, "BF16"),
        ("blk.3.attn_v.weight", [256, 128, 1, 1], 2, "BF16"),
        ("dec.blk.5.ffn_down.weight", [512, 256, 1, 1], 2, "BF16"),
    ] {
        let tensor = gguf.tensor(name).unwrap();
        assert_eq!((tensor.shape, tensor.dimensions, tensor.kind.name().as_str()), (shape, dimensions, kind), "{name}");
        assert_eq!(gguf.data(tensor), gguf.read_data(tensor).unwrap());
    }
    assert!(gguf.tensor("blk.3.ssm_a").is_none());

    let projector = Gguf::open(&fixture("clef-tiny/mmproj-clef-tiny-f16.gguf")).unwrap();
    assert_eq!((projector.keys().count(), projector.tensors().len(), projector.file_bytes()), (21, 34, 2_902_272));
    let of_kind = |name: &str| projector.tensors().iter().filter(|tensor| tensor.kind.name() == name).count();
    assert_eq!((of_kind("F32"), of_kind("F16")), (22, 12));
    let patches = projector.tensor("v.patch_embd.weight").unwrap();
    assert_eq!((patches.shape, patches.dimensions, patches.bytes), ([16, 16, 3, 128], 4, 2 * 16 * 16 * 3 * 128));
}

#[test]
fn values_of_every_kind_in_the_fixture_decode() {
    let gguf = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    assert_eq!(gguf.get("clef.block_count"), Some(Value::Unsigned(4)));
    assert_eq!(gguf.get("clef.rope.freq_base"), Some(Value::Float(1e7)));
    assert_eq!(gguf.get("tokenizer.ggml.add_bos_token"), Some(Value::Bool(false)));
    assert_eq!(gguf.get("general.name"), Some(Value::String(b"Clef Tiny")));
    assert_eq!(gguf.get("nothing.such"), None);
    assert_eq!(gguf.get_str("clef.block_count"), None);
    let sections = array(&gguf, "clef.rope.dimension_sections");
    assert_eq!(sections.kind(), ValueType::I32);
    assert_eq!(sections.iter().map(|value| value.as_u64().unwrap()).collect::<Vec<_>>(), [3, 3, 2, 0]);
    let recurrent: Vec<_> = array(&gguf, "clef.attention.recurrent_layers").iter().collect();
    assert_eq!(recurrent, [true, true, true, false].map(Value::Bool));
    let tokens = array(&gguf, "tokenizer.ggml.tokens");
    let texts: Vec<&[u8]> = tokens.strings("tokenizer.ggml.tokens").unwrap().collect();
    assert_eq!((tokens.len(), texts.len(), texts[0], texts[4095]), (4096, 4096, &b"!"[..], &b"[PAD4095]"[..]));
    let merges = array(&gguf, "tokenizer.ggml.merges");
    assert_eq!((merges.len(), merges.iter().next()), (3744, Some(Value::String("Ġ Ġ".as_bytes()))));
    assert!(array(&gguf, "tokenizer.ggml.token_type").strings("kinds").is_err());
}

#[test]
fn a_file_cut_off_anywhere_is_an_error() {
    let bytes = std::fs::read(tiny(Tiny::BF16)).unwrap();
    let gguf = open(&bytes).unwrap();
    let header = gguf.tensors().iter().map(|tensor| tensor.offset).min().unwrap() as usize;
    let end = gguf.tensors().iter().map(|tensor| tensor.offset + tensor.bytes).max().unwrap() as usize;
    let file = written(&bytes);
    let cuts = (0..400).chain((400..header).step_by(997)).chain((header..end).step_by(1_000_003)).chain([end - 1]);
    for cut in cuts.collect::<Vec<_>>().into_iter().rev() {
        file.as_file().set_len(cut as u64).unwrap();
        let error = Gguf::open(file.path()).expect_err(&format!("{cut} bytes"));
        assert_eq!(error.kind(), ErrorKind::InvalidFile, "{cut} bytes: {error}");
    }
}

/// Opens and looks at everything that opening promises.
fn look_at_all(path: &std::path::Path) -> Result<usize> {
    let gguf = Gguf::open(path)?;
    let mut seen = 0;
    for key in gguf.keys() {
        seen += match gguf.get(key).unwrap() {
            Value::Array(array) => array.iter().count(),
            _ => 1,
        };
    }
    for tensor in gguf.tensors() {
        assert_eq!(gguf.data(tensor).len() as u64, tensor.bytes);
        assert_eq!(
            tensor.kind.row_bytes(tensor.shape[0]).unwrap() * (tensor.elements() / tensor.shape[0]),
            tensor.bytes
        );
    }
    if let Ok(backbone) = Backbone::new(&gguf) {
        let image = backbone.to_virtual();
        assert!(image.length() <= gguf.file_bytes() + (1 << 20));
    }
    Ok(seen)
}

#[test]
fn flipped_bytes_in_the_header_never_panic_nor_allocate_much() {
    let bytes = std::fs::read(tiny(Tiny::BF16)).unwrap();
    let gguf = open(&bytes).unwrap();
    let header = gguf.tensors().iter().map(|tensor| tensor.offset).min().unwrap() as usize;
    // Most of the header is vocabulary; what lies before and after it decides more.
    let vocabulary = bytes.windows(21).position(|window| window == b"tokenizer.ggml.tokens").unwrap();
    let infos = bytes.windows(13).rposition(|window| window == b"output.weight").unwrap() - 8;
    let places = [0..vocabulary + 40, infos..header, 0..header];
    let file = written(&bytes);
    let limit = ALLOCATOR.current_usage() + (256 << 20);
    ALLOCATOR.reset_peak_usage();
    let (mut refused, mut accepted) = (0, 0);
    for seed in 0..2000 {
        let mut random = Random::new(seed + 1);
        let flips: Vec<usize> = (0..=random.below(3))
            .map(|_| {
                let place = places[random.below(3)].clone();
                place.start + random.below(place.len())
            })
            .collect();
        for &position in &flips {
            let byte =
                if random.below(2) == 0 { random.below(256) as u8 } else { bytes[position] ^ (1 << random.below(8)) };
            file.as_file().write_all_at(&[byte], position as u64).unwrap();
        }
        match catch_unwind(AssertUnwindSafe(|| look_at_all(file.path()))) {
            Ok(Ok(_)) => accepted += 1,
            Ok(Err(error)) => {
                refused += 1;
                assert!(!error.to_string().contains(char::is_control), "seed {seed}: {error:?}");
            }
            Err(_) => panic!("seed {seed}, flips at {flips:?}: a panic"),
        }
        for position in flips {
            file.as_file().write_all_at(&bytes[position..=position], position as u64).unwrap();
        }
    }
    assert!(refused > 500 && accepted > 200, "{refused} refused, {accepted} accepted: both paths are to be walked");
    assert!(ALLOCATOR.peak_usage() < limit, "{} bytes at the peak", ALLOCATOR.peak_usage());
    assert!(look_at_all(file.path()).is_ok(), "all flips were taken back");
}

/// A file made by hand, so that it can lie.
#[derive(Clone)]
struct Raw {
    magic: [u8; 4],
    version: u32,
    claimed_keys: Option<u64>,
    claimed_tensors: Option<u64>,
    keys: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    alignment: usize,
    data: usize,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            claimed_keys: None,
            claimed_tensors: None,
            keys: Vec::new(),
            tensors: Vec::new(),
            alignment: 32,
            data: 1024,
        }
    }
}

fn text(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text].concat()
}

const U32: u32 = 4;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

impl Raw {
    fn key(mut self, name: &str, kind: u32, value: &[u8]) -> Self {
        self.keys.push([text(name.as_bytes()), kind.to_le_bytes().to_vec(), value.to_vec()].concat());
        self
    }

    fn array(self, name: &str, kind: u32, claimed: u64, elements: &[u8]) -> Self {
        let value = [&kind.to_le_bytes()[..], &claimed.to_le_bytes(), elements].concat();
        self.key(name, ARRAY, &value)
    }

    fn tensor(mut self, name: &str, shape: &[u64], kind: u32, offset: u64) -> Self {
        let mut info = text(name.as_bytes());
        info.extend((shape.len() as u32).to_le_bytes());
        shape.iter().for_each(|length| info.extend(length.to_le_bytes()));
        info.extend(kind.to_le_bytes());
        info.extend(offset.to_le_bytes());
        self.tensors.push(info);
        self
    }

    fn open(&self) -> Result<Gguf> {
        let mut bytes = self.magic.to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.claimed_tensors.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        bytes.extend(self.claimed_keys.unwrap_or(self.keys.len() as u64).to_le_bytes());
        bytes.extend(self.keys.concat());
        bytes.extend(self.tensors.concat());
        bytes.resize(bytes.len().next_multiple_of(self.alignment) + self.data, 7);
        open(&bytes)
    }
}

#[track_caller]
fn assert_refused(raw: &Raw, words: &str) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let error = raw.open().expect_err(words);
    assert_eq!(error.kind(), ErrorKind::InvalidFile, "{error}");
    assert!(error.to_string().contains(words), "{error} does not say {words:?}");
    // Other tests allocate at the same time; what a false count would take is beyond all of them.
    assert!(ALLOCATOR.peak_usage() < before + (256 << 20), "{words}: {} bytes", ALLOCATOR.peak_usage());
}

#[test]
fn a_file_made_by_hand_reads_as_it_was_made() {
    let raw = Raw::default()
        .key("number", U32, &7_u32.to_le_bytes())
        .key("text", STRING, &text(b"hello"))
        .key("tiny", 1, &[0xff])
        .key("large", 11, &(-5_i64).to_le_bytes())
        .key("real", 12, &0.25_f64.to_le_bytes())
        .array("empty", U32, 0, &[])
        .array("texts", STRING, 3, &[text(b"a"), text(b""), text(b"ccc")].concat())
        .tensor("a", &[8, 4], 0, 0)
        .tensor("b", &[32, 2], 2, 128);
    let gguf = raw.open().unwrap();
    assert_eq!(gguf.keys().collect::<Vec<_>>(), ["number", "text", "tiny", "large", "real", "empty", "texts"]);
    assert_eq!(gguf.get("number"), Some(Value::Unsigned(7)));
    assert_eq!(gguf.get("tiny"), Some(Value::Signed(-1)));
    assert_eq!(gguf.get("large"), Some(Value::Signed(-5)));
    assert_eq!(gguf.get("real"), Some(Value::Float(0.25)));
    assert!(array(&gguf, "empty").is_empty());
    let texts: Vec<&[u8]> = array(&gguf, "texts").strings("texts").unwrap().collect();
    assert_eq!(texts, [&b"a"[..], b"", b"ccc"]);
    let b = gguf.tensor("b").unwrap();
    assert_eq!((b.bytes, gguf.data(b), b.kind), (36, &[7; 36][..], kind(2)));
    assert_eq!(b.offset - gguf.tensor("a").unwrap().offset, 128);
}

#[test]
fn counts_that_the_bytes_do_not_bear_out_are_refused_without_allocating() {
    for count in [u64::MAX, u64::MAX / 4, 1 << 60, 1 << 40, 1 << 17, 1000] {
        let raw = Raw { claimed_keys: Some(count), ..Raw::default() };
        assert_refused(&raw, if count > 1000 { "metadata keys" } else { "" });
        let raw = Raw { claimed_tensors: Some(count), ..Raw::default() };
        assert_refused(&raw, if count > 1000 { "tensors" } else { "" });
        if count > 2000 {
            assert_refused(&Raw::default().key("text", STRING, &count.to_le_bytes()), "cut off");
            assert_refused(&Raw::default().array("array", U32, count, &[0; 64]), "");
            assert_refused(&Raw::default().array("array", 10, count, &[0; 64]), "");
            assert_refused(&Raw { data: 64, ..Raw::default() }.array("array", STRING, count, &[0; 64]), "cut off");
        }
    }
    let long_name = Raw::default().key(&"k".repeat(70_000), U32, &[0; 4]);
    assert_refused(&long_name, "70000 bytes");
}

#[test]
fn names_that_are_not_usable_are_refused() {
    let key = |name| Raw::default().key(name, U32, &[0; 4]);
    assert_refused(&key(""), "0 bytes");
    assert_refused(&key("a\0b"), "not text");
    assert_refused(&key("a").key("a", U32, &[0; 4]), "the metadata key a appears twice");
    assert_refused(&key("a").key("b", 13, &[0; 4]), "unknown type 13");
    assert_refused(&key("a").array("b", ARRAY, 1, &[0; 20]), "array of unknown type 9");
    assert_refused(&key("a").array("b", 77, 1, &[0; 20]), "array of unknown type 77");
    let tensor = |name: &str| Raw::default().tensor(name, &[8], 0, 0);
    assert_refused(&tensor(""), "0 bytes");
    assert_refused(&tensor(&"t".repeat(64)), "64 bytes");
    assert!(tensor(&"t".repeat(63)).open().is_ok());
    assert_refused(&tensor("t").tensor("t", &[8], 0, 32), "the tensor t appears twice");
    let mut not_text = tensor("t");
    not_text.tensors[0][8] = 0xff;
    assert_refused(&not_text, "not text");
}

#[test]
fn alignments_that_are_no_powers_of_two_are_refused_and_others_kept_to() {
    let aligned = |value: u32, offset| {
        let raw = Raw { alignment: value.max(1) as usize, data: 8192, ..Raw::default() };
        raw.key("general.alignment", U32, &value.to_le_bytes()).tensor("t", &[8], 0, offset)
    };
    for bad in [0, 3, 48, 1 << 17, u32::MAX] {
        let raw = Raw { alignment: 32, ..aligned(1, 0) };
        let raw = Raw { keys: aligned(bad, 0).keys, ..raw };
        assert_refused(&raw, "general.alignment must be a power of two");
    }
    let text_valued = Raw::default().key("general.alignment", STRING, &text(b"32")).tensor("t", &[8], 0, 0);
    assert_refused(&text_valued, "general.alignment");
    for good in [1, 8, 64, 4096] {
        let gguf = aligned(good, u64::from(good)).open().unwrap();
        let tensor = gguf.tensor("t").unwrap();
        assert_eq!((gguf.alignment(), tensor.offset % u64::from(good)), (u64::from(good), 0));
    }
    assert_refused(&aligned(64, 32), "not a multiple of 64");
    assert_refused(&Raw::default().tensor("t", &[8], 0, 8), "not a multiple of 32");
}

#[test]
fn tensors_that_do_not_lie_in_the_file_are_refused() {
    let tensor = |shape: &[u64], kind, offset| Raw::default().tensor("t", shape, kind, offset);
    assert!(tensor(&[256], 0, 0).open().is_ok());
    assert_refused(&tensor(&[257], 0, 0), "cut off");
    assert_refused(&tensor(&[8], 0, 1024), "cut off");
    assert_refused(&tensor(&[8], 0, !31), "cut off");
    assert_refused(&tensor(&[8], 0, i64::MAX as u64 & !31), "cut off");
    assert_refused(&tensor(&[u64::MAX >> 2], 0, 0), "");
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let shape = |shape: &[u64]| Raw::default().tensor("t", shape, 0, 0);
    assert_refused(&shape(&[]), "0 dimensions");
    assert_refused(&shape(&[1; 5]), "5 dimensions");
    assert_refused(&shape(&[0]), "dimension of 0");
    assert_refused(&shape(&[8, 0]), "dimension of 0");
    assert_refused(&shape(&[0, u64::MAX]), "dimension of 0");
    assert_refused(&shape(&[1 << 32, 1 << 32]), "dimension of");
    assert_refused(&shape(&[1 << 62, 2]), "dimension of");
    assert_refused(&shape(&[1 << 62]), "");
    assert_refused(&shape(&[3, u64::MAX / 3]), "dimension of");
    for id in [4, 5, 31, 1000, u32::MAX] {
        assert_refused(&Raw::default().tensor("t", &[256], id, 0), "unknown type");
    }
    // Rows of 33 elements do not fit blocks of 32.
    assert_refused(&Raw::default().tensor("t", &[33], 2, 0), "do not fit");
}

#[test]
fn tensors_that_share_bytes_are_refused() {
    let two = |second| Raw::default().tensor("a", &[16], 0, 64).tensor("b", &[16], 0, second);
    assert!(two(0).open().is_ok() && two(128).open().is_ok());
    assert_refused(&two(64), "share bytes");
    assert_refused(&two(96), "share bytes");
    assert_refused(&two(32), "share bytes");
}

#[test]
fn what_is_no_gguf_is_said_to_be_none() {
    assert_refused(&Raw { magic: *b"GGML", ..Raw::default() }, "not a GGUF file");
    for version in [0, 1, 4, 3_u32.swap_bytes()] {
        assert_refused(&Raw { version, ..Raw::default() }, "GGUF version");
    }
    assert!(Raw { version: 2, ..Raw::default() }.open().is_ok());
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Gguf::open(folder.path()).unwrap_err().kind(), ErrorKind::InvalidFile);
    assert_eq!(Gguf::open(&folder.path().join("none")).unwrap_err().kind(), ErrorKind::Io);
    assert!(open(b"").is_err() && open(&[b'x'; 100]).is_err());
}

#[test]
fn an_error_is_one_line_whatever_the_file_says() {
    let raw = Raw::default().key("a\nb\u{1b}[31mred\rc", 77, &[]);
    let error = raw.open().unwrap_err().to_string();
    assert!(!error.contains(char::is_control), "{error:?}");
}

#[test]
fn rows_of_every_type_turn_into_floats_and_only_whole_ones() {
    let gguf = Gguf::open(&tiny(Tiny::Q4_K_M)).unwrap();
    let wide = Gguf::open(&tiny(Tiny::F32)).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for tensor in gguf.tensors().iter().filter(|tensor| tensor.dimensions == 2 && tensor.shape[0] == 256) {
        kinds.insert(tensor.kind.name());
        let row_bytes = (tensor.bytes / tensor.shape[1]) as usize;
        let (mut row, mut exact) = ([0.0; 256], [0.0; 256]);
        tensor.kind.dequantize_row(&gguf.data(tensor)[..row_bytes], &mut row).unwrap();
        let other = wide.tensor(&tensor.name).unwrap();
        other.kind.dequantize_row(&wide.data(other)[..1024], &mut exact).unwrap();
        let largest = exact.iter().fold(0_f32, |a, b| a.max(b.abs()));
        let error = row.iter().zip(exact).map(|(a, b)| (a - b).abs()).fold(0_f32, f32::max);
        assert!(error <= largest * 0.15, "{}: {error} of {largest}", tensor.name);
        assert!(tensor.kind.dequantize_row(&gguf.data(tensor)[..row_bytes - 1], &mut row).is_err());
        assert!(tensor.kind.dequantize_row(&gguf.data(tensor)[..row_bytes], &mut row[..255]).is_err());
    }
    assert!(kinds.contains("Q4_K") && kinds.contains("Q6_K"), "{kinds:?}");
}
