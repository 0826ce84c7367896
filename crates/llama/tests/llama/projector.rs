//! Projector files that are damaged, foreign or hostile: refused before the library sees them, or loaded.
//!
//! An assertion of the library would end this process; the last thing printed is the file that did it.

use std::os::unix::fs::FileExt as _;
use std::path::Path;

use clef_llama::gguf::{Gguf, TensorInfo, TensorType};
use clef_llama::{Device, Error, ErrorKind, FlashAttention, Projector, Result, Vision, VisionParams};
use clef_testkit::{Tiny, fixture, tiny, tiny_projector};

use crate::support::{F16, F32_MODEL, I32, Put, Q4_K, Random, Sketch, kind, load, written};

const Q4_0: u32 = 2;
const Q8_0: u32 = 8;
const BF16: u32 = 30;

fn sketch() -> Sketch {
    Sketch::of(&tiny_projector())
}

fn refusal_of(path: &Path, what: &str) -> Error {
    let error = Gguf::open(path).and_then(|gguf| Projector::new(&gguf).map(|_| ())).expect_err(what);
    let line = error.to_string();
    assert!(matches!(error.kind(), ErrorKind::InvalidFile | ErrorKind::Unsupported), "{what}: {line}");
    assert!(line.contains(&path.display().to_string()) && line.len() < 1000, "{what}: {line}");
    assert!(!line.contains(char::is_control), "{what}: {line:?}");
    error
}

fn refusal(sketch: &Sketch, what: &str) -> Error {
    refusal_of(sketch.write_hollow().path(), what)
}

fn refused_key(key: &str, value: Option<Put>) -> Error {
    let mut sketch = sketch();
    let what = format!("{key} = {value:?}");
    match value {
        Some(value) => sketch.put(key, value),
        None => sketch.remove(key),
    };
    refusal(&sketch, &what)
}

/// Loads a file, and embeds two sizes of picture and a step of a video with it.
fn embed(gguf: &Gguf, flash_attention: FlashAttention) -> Result<Vec<f32>> {
    let projector = Projector::new(gguf)?;
    let params = VisionParams { device: Device::cpu(), threads: 1, flash_attention };
    let mut vision = Vision::load(&projector, &F32_MODEL, &params)?;
    let side = vision.shape().token_side();
    let frame = vec![200; (side * 3 * side * 3) as usize];
    vision.encode(&[&frame, &frame], 3 * side, side)?;
    vision.encode(&[&frame[..frame.len() / 3]], side, side)
}

#[test]
fn the_unchanged_sketch_is_a_projector() {
    let file = sketch().write_whole();
    let gguf = Gguf::open(file.path()).unwrap();
    let projector = Projector::new(&gguf).unwrap();
    let shape = projector.shape();
    assert_eq!((shape.layers, shape.width, shape.feed_forward, shape.heads), (2, 128, 256, 2));
    assert_eq!((shape.patch, shape.merge, shape.embedding, shape.token_side()), (16, 2, 256, 32));
    assert_eq!(projector.weight_bytes(), gguf.tensors().iter().map(|tensor| tensor.bytes).sum::<u64>());
    assert_eq!(embed(&gguf, FlashAttention::On).unwrap().len(), 256);
    let halves = Gguf::open(&fixture("clef-tiny/mmproj-clef-tiny-f16.gguf")).unwrap();
    assert_eq!(embed(&halves, FlashAttention::On).unwrap().len(), 256);
}

/// What values a key has, and whether the library does without it.
const KEYS: [(&str, &str, bool); 22] = [
    ("general.architecture", "text", true),
    ("general.name", "text", false),
    ("general.description", "text", false),
    ("clip.projector_type", "text", true),
    ("clip.vision.projector_type", "text", false),
    ("clip.has_vision_encoder", "flag", true),
    ("clip.has_audio_encoder", "flag", false),
    ("clip.has_gen_audio_encoder", "flag", false),
    ("clip.use_gelu", "flag", true),
    ("clip.use_silu", "flag", false),
    ("clip.vision.projection_dim", "number", true),
    ("clip.vision.image_size", "number", true),
    ("clip.vision.patch_size", "number", true),
    ("clip.vision.embedding_length", "number", true),
    ("clip.vision.feed_forward_length", "number", true),
    ("clip.vision.block_count", "number", true),
    ("clip.vision.attention.head_count", "number", true),
    ("clip.vision.spatial_merge_size", "number", true),
    ("clip.vision.attention.layer_norm_epsilon", "float", true),
    ("clip.vision.image_mean", "floats", true),
    ("clip.vision.image_std", "floats", true),
    // It may hold anything, the library does not read it.
    ("clip.vision.is_deepstack_layers", "array", false),
];

#[test]
fn every_key_is_needed_in_its_own_type() {
    for (key, own, is_needed) in KEYS {
        let word = key.rsplit('.').next().unwrap().split('_').next().unwrap();
        if is_needed {
            let error = refused_key(key, None);
            assert!(error.to_string().contains(word), "{key}: {error}");
        }
        for (value, kind) in [
            (Put::Text("2"), "text"),
            (Put::Bool(true), "flag"),
            (Put::U32(2), "number"),
            (Put::F32(0.5), "float"),
            (Put::I32s(vec![2, 2, 2]), "array"),
            (Put::U32s(vec![]), "array"),
        ] {
            if kind != own {
                let error = refused_key(key, Some(value));
                assert!(error.to_string().contains(word), "{key}: {error}");
            }
        }
    }
    for key in ["general.name", "clip.vision.is_deepstack_layers"] {
        let mut sketch = sketch();
        sketch.remove(key);
        embed(&Gguf::open(sketch.write_whole().path()).unwrap(), FlashAttention::On).unwrap();
    }
}

#[test]
fn impossible_numbers_are_refused() {
    let numbers: [(&str, &[u32]); 8] = [
        ("projection_dim", &[0, 31, 255, 512, u32::MAX]),
        ("image_size", &[0, u32::MAX]),
        ("patch_size", &[0, 1, 15, 32, u32::MAX]),
        ("embedding_length", &[0, 4, 64, 256, u32::MAX]),
        ("feed_forward_length", &[0, 255, 512, u32::MAX]),
        ("block_count", &[0, 1, 3, 257, u32::MAX]),
        ("attention.head_count", &[0, 3, 64, 128, u32::MAX]),
        ("spatial_merge_size", &[0, 1, 3, 4, u32::MAX]),
    ];
    for (suffix, values) in numbers {
        for &value in values {
            refused_key(&format!("clip.vision.{suffix}"), Some(Put::U32(value)));
        }
    }
    for epsilon in [0.0, -1e-6, 1.0, f32::NAN, f32::INFINITY] {
        refused_key("clip.vision.attention.layer_norm_epsilon", Some(Put::F32(epsilon)));
    }
    refused_key("clip.has_vision_encoder", Some(Put::Bool(false)));
    refused_key("clip.use_gelu", Some(Put::Bool(false)));
    for key in ["clip.has_audio_encoder", "clip.has_gen_audio_encoder"] {
        refused_key(key, Some(Put::Bool(true)));
    }
    // Behind the key: its type, that of the elements, their number.
    let bytes = std::fs::read(tiny_projector()).unwrap();
    for (key, value) in [
        ("image_std", 0.0),
        ("image_std", -0.5),
        ("image_std", f32::NAN),
        ("image_mean", f32::NAN),
        ("image_mean", 1e9),
    ] {
        let mut bytes = bytes.clone();
        let at = bytes.windows(key.len()).position(|window| window == key.as_bytes()).unwrap() + key.len() + 16;
        assert_eq!(bytes[at..at + 4], 0.5_f32.to_le_bytes());
        bytes[at + 8..at + 12].copy_from_slice(&value.to_le_bytes());
        let error = refusal_of(written(&bytes).path(), key);
        assert!(error.to_string().contains(key), "{error}");
    }
}

#[test]
fn other_files_and_other_families_are_refused_by_name() {
    let error = refusal_of(&tiny(Tiny::BF16), "a model");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("the architecture is \"clef\""), "{error}");
    for family in ["gemma3", "qwen2vl_merger", "qwen2.5vl_merger", "QWEN3VL_MERGER", "qwen3vl_merger\0", "\u{1b}[2J"] {
        for key in ["clip.projector_type", "clip.vision.projector_type"] {
            let mut sketch = sketch();
            sketch.remove("clip.projector_type").put(key, Put::Text(family));
            let error = refusal(&sketch, family);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("of the family"), "{error}");
        }
    }
    refused_key("clip.projector_type", Some(Put::Text("")));
    let mut moved = sketch();
    moved.put("clip.projector_type", Put::Text("")).put("clip.vision.projector_type", Put::Text("qwen3vl_merger"));
    embed(&Gguf::open(moved.write_whole().path()).unwrap(), FlashAttention::On).unwrap();
    for key in ["clip.vision.n_wa_pattern", "clip.vision.feature_layer", "clip.minicpmv_version"] {
        let error = refused_key(key, Some(Put::U32(1)));
        assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains(key), "{error}");
    }
    refusal_of(written(&b"no projector, but long enough to be looked at".repeat(9)).path(), "a text");
    refusal_of(written(b"").path(), "an empty file");
}

fn resize(tensor: &mut TensorInfo, shape: &[u64], kind: TensorType) {
    tensor.shape = [1; 4];
    tensor.shape[..shape.len()].copy_from_slice(shape);
    tensor.dimensions = shape.len();
    tensor.kind = kind;
    tensor.bytes = kind.row_bytes(tensor.shape[0]).unwrap() * (tensor.elements() / tensor.shape[0]);
}

#[test]
fn every_tensor_is_needed_in_its_shape_and_a_type_that_computes() {
    let names: Vec<String> = sketch().tensors.iter().map(|tensor| tensor.name.clone()).collect();
    assert_eq!(names.len(), 34);
    for name in &names {
        let mut missing = sketch();
        missing.tensors.retain(|tensor| tensor.name != *name);
        let error = refusal(&missing, name);
        assert!(error.to_string().contains(&format!("the tensor {name} is missing")), "{error}");

        let shape = shape_of(name);
        let mut wrong: Vec<Vec<u64>> = (0..shape.len())
            .map(|axis| shape.iter().enumerate().map(|(at, length)| length + u64::from(at == axis)).collect())
            .collect();
        wrong.extend([shape.iter().rev().copied().collect(), vec![shape.iter().product(), 1, 1, 2]]);
        for wrong in wrong.into_iter().filter(|wrong| *wrong != shape) {
            let mut sketch = sketch();
            resize(sketch.tensor(name), &wrong, TensorType::F32);
            let error = refusal(&sketch, &format!("{name} as {wrong:?}"));
            assert!(error.to_string().contains(name), "{error}");
        }
        let mut kinds = vec![kind(I32)];
        if shape.len() == 1 || name.contains("position") {
            kinds.push(kind(F16));
        }
        if name.contains("patch_embd.weight") {
            // ggml leaves pixels in 32 bits for such a kernel, and has no product of the two.
            kinds.push(kind(BF16));
        }
        for kind in kinds {
            let mut sketch = sketch();
            resize(sketch.tensor(name), &shape, kind);
            let error = refusal(&sketch, &format!("{name} as {kind:?}"));
            assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains(name), "{error}");
        }
    }
    let mut extra = sketch();
    extra.tensors.push(TensorInfo { name: "v.blk.0.attn_q.weight".into(), ..extra.tensors[0].clone() });
    let error = refusal(&extra, "an extra tensor");
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("v.blk.0.attn_q.weight"), "{error}");
}

fn shape_of(name: &str) -> Vec<u64> {
    let mut sketch = sketch();
    let tensor = sketch.tensor(name);
    tensor.shape[..tensor.dimensions].to_vec()
}

#[test]
fn a_projector_of_another_model_is_refused_at_the_door() {
    let mut wide = sketch();
    wide.put("clip.vision.projection_dim", Put::U32(512));
    resize(wide.tensor("mm.2.weight"), &[512, 512], TensorType::F32);
    resize(wide.tensor("mm.2.bias"), &[512], TensorType::F32);
    let error = embed(&Gguf::open(wide.write_hollow().path()).unwrap(), FlashAttention::On).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("512") && error.to_string().contains("256"), "{error}");
}

#[test]
fn whichever_byte_of_the_header_is_flipped_the_file_loads_or_is_refused() {
    let source = fixture("clef-tiny/mmproj-clef-tiny-f16.gguf");
    let whole = std::fs::read(&source).unwrap();
    let gguf = Gguf::open(&source).unwrap();
    let header = gguf.tensors().iter().map(|tensor| tensor.offset).min().unwrap() as usize;
    let file = written(&whole);
    let (mut embedded, mut refused) = (0, 0);
    for at in 0..header {
        let mut random = Random::new(at as u64);
        let (bit, any) = (whole[at] ^ (1 << random.below(8)), random.below(256) as u8);
        let byte = random.pick(&[bit, any, 0, 0xff]);
        let byte = if byte == whole[at] { bit } else { byte };
        file.as_file().write_all_at(&[byte], at as u64).unwrap();
        eprintln!("byte {at} of {header}: {byte}");
        match Gguf::open(file.path()).and_then(|gguf| embed(&gguf, FlashAttention::On)) {
            Ok(_) => embedded += 1,
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().contains(char::is_control), "byte {at}: {error:?}");
            }
        }
        file.as_file().write_all_at(&whole[at..=at], at as u64).unwrap();
    }
    eprintln!("{embedded} embed, {refused} are refused");
    assert!(embedded > 100 && refused > 1000, "{embedded} embed, {refused} are refused");
}

#[test]
fn a_projector_cut_off_at_any_of_ten_sizes_is_refused() {
    let whole = std::fs::read(fixture("clef-tiny/mmproj-clef-tiny-f16.gguf")).unwrap();
    for tenth in 0..10 {
        let error = refusal_of(written(&whole[..whole.len() * tenth / 10]).path(), &format!("{tenth} tenths"));
        assert_eq!(error.kind(), ErrorKind::InvalidFile, "{error}");
    }
    let file = written(&whole[..whole.len() - 1]);
    assert_eq!(refusal_of(file.path(), "a byte too few").kind(), ErrorKind::InvalidFile);
}

/// A tower of any numbers, with weights of zero, that makes embeddings for clef-tiny.
#[derive(Debug)]
struct Shape {
    layers: u64,
    heads: u64,
    head_width: u64,
    feed_forward: u64,
    patch: u64,
    positions: u64,
    image_size: u32,
    convolution: TensorType,
    matrices: TensorType,
}

impl Shape {
    fn random(random: &mut Random) -> Self {
        Self {
            layers: 1 + random.below(3) as u64,
            heads: random.pick(&[1, 2, 3, 4, 7, 16]),
            head_width: random.pick(&[4, 8, 12, 16, 20, 36, 64, 72, 80, 100, 128]),
            feed_forward: random.pick(&[1, 2, 7, 33, 64, 100, 256, 512]),
            patch: random.pick(&[2, 3, 4, 7, 8, 13, 14, 16, 17, 20]),
            positions: random.pick(&[1, 2, 3, 4, 6, 7, 16, 48]),
            image_size: random.pick(&[1, 2, 15, 224, 768, 8192, 16384]),
            convolution: random.pick(&[TensorType::F32, TensorType::F16]),
            // Where rows are made of whole blocks.
            matrices: random.pick(&[TensorType::F32, TensorType::F16, kind(BF16), kind(Q8_0), kind(Q4_0), kind(Q4_K)]),
        }
    }

    fn sketch(&self) -> Sketch {
        let mut sketch = sketch();
        let width = self.heads * self.head_width;
        for (suffix, value) in [
            ("block_count", self.layers),
            ("embedding_length", width),
            ("feed_forward_length", self.feed_forward),
            ("attention.head_count", self.heads),
            ("patch_size", self.patch),
            ("image_size", u64::from(self.image_size)),
        ] {
            sketch.put(&format!("clip.vision.{suffix}"), Put::U32(value as u32));
        }
        let mut all: Vec<(String, Vec<u64>, TensorType)> = Vec::new();
        let mut linear = |name: String, from: u64, to: u64| {
            let fits = self.matrices.row_bytes(from).is_some();
            all.push((format!("{name}.weight"), vec![from, to], if fits { self.matrices } else { TensorType::F32 }));
            all.push((format!("{name}.bias"), vec![to], TensorType::F32));
        };
        for block in 0..self.layers {
            linear(format!("v.blk.{block}.attn_qkv"), width, 3 * width);
            linear(format!("v.blk.{block}.attn_out"), width, width);
            linear(format!("v.blk.{block}.ffn_up"), width, self.feed_forward);
            linear(format!("v.blk.{block}.ffn_down"), self.feed_forward, width);
        }
        linear("mm.0".into(), 4 * width, 4 * width);
        linear("mm.2".into(), 4 * width, 256);
        let norms = (0..self.layers).flat_map(|block| [format!("v.blk.{block}.ln1"), format!("v.blk.{block}.ln2")]);
        for norm in norms.chain(["v.post_ln".into()]) {
            all.extend(["weight", "bias"].map(|part| (format!("{norm}.{part}"), vec![width], TensorType::F32)));
        }
        let kernel = vec![self.patch, self.patch, 3, width];
        all.push(("v.patch_embd.weight".into(), kernel.clone(), self.convolution));
        all.push(("v.patch_embd.weight.1".into(), kernel, self.convolution));
        all.push(("v.patch_embd.bias".into(), vec![width], TensorType::F32));
        all.push(("v.position_embd.weight".into(), vec![width, self.positions.pow(2)], TensorType::F32));
        let blank = sketch.tensors[0].clone();
        sketch.tensors = all
            .into_iter()
            .map(|(name, shape, kind)| {
                let mut tensor = TensorInfo { name, ..blank.clone() };
                resize(&mut tensor, &shape, kind);
                tensor
            })
            .collect();
        sketch
    }
}

#[test]
fn whatever_numbers_are_accepted_load_and_embed() {
    const SEEDS: u64 = 200;
    let mut embedded = 0;
    for seed in 1..=SEEDS {
        let mut random = Random::new(seed);
        let shape = Shape::random(&mut random);
        let file = shape.sketch().write_hollow();
        let gguf = Gguf::open(file.path()).unwrap();
        if let Err(error) = Projector::new(&gguf) {
            eprintln!("seed {seed}: refused: {error}");
            continue;
        }
        let flash_attention = random.pick(&[FlashAttention::Auto, FlashAttention::On, FlashAttention::Off]);
        eprintln!("seed {seed}: {flash_attention:?}, {shape:?}");
        match embed(&gguf, flash_attention) {
            Ok(rows) => {
                assert_eq!(rows, [0.0; 256], "weights of zero");
                embedded += 1;
            }
            Err(error) => eprintln!("seed {seed}: not loaded: {error}"),
        }
    }
    eprintln!("{embedded} of {SEEDS} embed");
    assert!(embedded > 100, "{embedded} of {SEEDS}");
}

#[test]
fn the_model_that_a_tower_belongs_to_may_be_let_go_first() {
    let model = load(&Gguf::open(&tiny(Tiny::Q4_K_M)).unwrap()).unwrap();
    let gguf = Gguf::open(&tiny_projector()).unwrap();
    let params = VisionParams { device: Device::cpu(), threads: 1, flash_attention: FlashAttention::On };
    let mut vision = Vision::load(&Projector::new(&gguf).unwrap(), &model, &params).unwrap();
    drop(model);
    drop(gguf);
    assert_eq!(vision.encode(&[&[0; 32 * 32 * 3]], 32, 32).unwrap().len(), 256);
}
