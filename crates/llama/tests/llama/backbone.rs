//! Files whose header is sound and whose contents are not a model.

use clef_llama::gguf::{Gguf, TensorInfo, TensorType};
use clef_llama::{Backbone, CacheType, Context, ContextParams, ErrorKind, FlashAttention, SequenceId, Token};

use clef_testkit::{Tiny, tiny};

use crate::support::{
    DOC_EXAMPLE, EXACT, F16, F32_MODEL, I32, Put, Q4_K, Random, Sketch, decode, distance, kind, load,
};

fn refusal(sketch: &Sketch, what: &str) -> clef_llama::Error {
    let file = sketch.write_hollow();
    let gguf = Gguf::open(file.path()).unwrap();
    let error = Backbone::new(&gguf).map(|_| ()).expect_err(what);
    let line = error.to_string();
    assert!(matches!(error.kind(), ErrorKind::InvalidFile | ErrorKind::Unsupported), "{what}: {line}");
    assert!(!line.contains('\n') && line.starts_with(&file.path().display().to_string()), "{what}: {line}");
    error
}

fn refused_key(key: &str, value: Option<Put>) -> clef_llama::Error {
    let mut sketch = Sketch::new();
    let what = format!("{key} = {value:?}");
    match value {
        Some(value) => sketch.put(key, value),
        None => sketch.remove(key),
    };
    refusal(&sketch, &what)
}

/// Names of the tensors that a backbone consists of.
fn backbone_tensors() -> Vec<String> {
    let sketch = Sketch::new();
    let kept = |name: &str| name.starts_with("blk.") || matches!(name, "token_embd.weight" | "output_norm.weight");
    sketch.tensors.iter().map(|tensor| tensor.name.clone()).filter(|name| kept(name)).collect()
}

#[test]
fn the_unchanged_sketch_is_a_backbone() {
    let file = Sketch::new().write_hollow();
    let gguf = Gguf::open(file.path()).unwrap();
    let backbone = Backbone::new(&gguf).unwrap();
    assert_eq!(backbone.tensors().count(), backbone_tensors().len());
    let h = backbone.hyperparameters();
    assert_eq!((h.layers, h.attention_layers(), h.width, h.vocabulary), (4, 1, 256, 4096));
    assert_eq!(h.rope_sections, [3, 3, 2, 0]);
    assert_eq!(h.kv_bytes_per_token(16.0, 16.0), 2 * 2 * 64 * 2);
    // Three layers: 4 heads of 64 x 64, and 3 columns of 512 channels.
    assert_eq!(h.recurrent_bytes_per_sequence(), 3 * 4 * (4 * 64 * 64 + 3 * 512));
}

#[test]
fn every_missing_tensor_is_named() {
    for name in backbone_tensors() {
        let mut sketch = Sketch::new();
        sketch.tensors.retain(|tensor| tensor.name != name);
        let error = refusal(&sketch, &name);
        assert!(error.to_string().contains(&format!("the tensor {name} is missing")), "{error}");
    }
    // The head, its table and anything else outside the layers is not the backbone's business.
    let mut sketch = Sketch::new();
    sketch.tensors.retain(|tensor| backbone_tensors().contains(&tensor.name));
    assert!(Backbone::new(&Gguf::open(sketch.write_hollow().path()).unwrap()).is_ok());
}

#[test]
fn every_tensor_of_another_shape_or_type_is_named() {
    let resize = |tensor: &mut TensorInfo, shape: &[u64], kind: TensorType| {
        tensor.shape[..shape.len()].copy_from_slice(shape);
        tensor.kind = kind;
        tensor.bytes = kind.row_bytes(tensor.shape[0]).unwrap() * (tensor.elements() / tensor.shape[0]);
    };
    for name in backbone_tensors() {
        let (shape, original) = {
            let mut sketch = Sketch::new();
            let tensor = sketch.tensor(&name);
            (tensor.shape[..tensor.dimensions].to_vec(), tensor.kind)
        };
        let plus_one: Vec<Vec<u64>> = (0..shape.len())
            .map(|axis| shape.iter().enumerate().map(|(i, length)| length + u64::from(i == axis)).collect())
            .collect();
        let swapped = shape.iter().rev().copied().collect::<Vec<_>>();
        for wrong in plus_one.into_iter().chain((swapped != shape).then_some(swapped)) {
            let mut sketch = Sketch::new();
            resize(sketch.tensor(&name), &wrong, original);
            let error = refusal(&sketch, &format!("{name} as {wrong:?}"));
            // Another number of embeddings is another vocabulary.
            assert!(error.to_string().contains(&name) || name == "token_embd.weight", "{error}");
        }
        let mut sketch = Sketch::new();
        let wrong_kind = if original == TensorType::F32 { F16 } else { I32 };
        resize(sketch.tensor(&name), &shape, kind(wrong_kind));
        let error = refusal(&sketch, &format!("{name} of another type"));
        assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains(&name), "{error}");
    }
    // Quantized vectors are refused even where their length fits blocks.
    let mut sketch = Sketch::new();
    resize(sketch.tensor("output_norm.weight"), &[256], kind(Q4_K));
    refusal(&sketch, "a quantized norm");
}

#[test]
fn every_missing_or_impossible_number_is_an_error() {
    use Put::{Bool, Bools, F32, I32s, Text, U32, U32s};
    let cases: &[(&str, &[Put])] = &[
        ("block_count", &[U32(0), U32(3), U32(5), U32(513), U32(u32::MAX), Text("4"), F32(4.0)]),
        ("context_length", &[U32(0), U32(u32::MAX), Text("x")]),
        ("embedding_length", &[U32(0), U32(31), U32(255), U32(512), U32(u32::MAX)]),
        ("feed_forward_length", &[U32(0), U32(511), U32(u32::MAX), U32s(vec![512; 3]), U32s(vec![512, 512, 512, 511])]),
        ("attention.head_count", &[U32(0), U32(3), U32(8), U32(u32::MAX), Bool(true)]),
        ("attention.head_count_kv", &[U32(0), U32(3), U32(4), U32(8), U32s(vec![2, 2]), I32s(vec![0, 0, 0, -1])]),
        ("attention.key_length", &[U32(0), U32(1), U32(32), U32(63), U32(5000), U32(u32::MAX)]),
        ("attention.value_length", &[U32(0), U32(32), U32(128), U32(u32::MAX)]),
        ("attention.layer_norm_rms_epsilon", &[F32(0.0), F32(-1e-6), F32(f32::NAN), F32(f32::INFINITY), U32(1)]),
        ("rope.dimension_count", &[U32(0), U32(1), U32(15), U32(18), U32(66), U32(u32::MAX)]),
        (
            "rope.dimension_sections",
            &[
                I32s(vec![3, 3, 3, 0]),
                I32s(vec![3, 3, -2, 4]),
                // ggml asserts that one of the first three is positive.
                I32s(vec![0, 0, 0, 8]),
                I32s(vec![0, 0, 8, 0]),
                I32s(vec![8]),
                I32s(vec![3, 3, 2, 0, 0]),
                I32s(vec![]),
                I32s(vec![i32::MAX, i32::MAX, 10, 0]),
                U32(8),
            ],
        ),
        ("rope.freq_base", &[F32(0.0), F32(-1.0), F32(f32::NAN), F32(f32::INFINITY), U32(10_000_000)]),
        ("ssm.conv_kernel", &[U32(0), U32(1), U32(3), U32(5), U32(17), U32(u32::MAX)]),
        ("ssm.state_size", &[U32(0), U32(15), U32(32), U32(128), U32(u32::MAX)]),
        ("ssm.group_count", &[U32(0), U32(1), U32(3), U32(4), U32(u32::MAX)]),
        ("ssm.time_step_rank", &[U32(0), U32(1), U32(3), U32(8), U32(u32::MAX)]),
        ("ssm.inner_size", &[U32(0), U32(128), U32(255), U32(u32::MAX)]),
    ];
    for (suffix, values) in cases {
        let key = format!("clef.{suffix}");
        let error = refused_key(&key, None);
        assert!(error.to_string().contains(suffix.rsplit('.').next().unwrap()), "{error}");
        for value in *values {
            refused_key(&key, Some(value.clone()));
        }
    }
    let flags = "clef.attention.recurrent_layers";
    for value in [Bools(vec![true; 3]), Bools(vec![true; 4]), Bools(vec![false; 4]), U32(3), Bools(vec![true; 600])] {
        refused_key(flags, Some(value));
    }
    refused_key("clef.nextn_predict_layers", Some(U32(4)));
    refused_key("clef.nextn_predict_layers", Some(U32(u32::MAX)));
    for key in ["clef.rope.scaling.type", "clef.rope.scaling.factor"] {
        let value = if key.ends_with("type") { Text("yarn") } else { F32(2.0) };
        assert_eq!(refused_key(key, Some(value)).kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn numbers_may_be_stated_per_layer_and_intervals_instead_of_flags() {
    let mut sketch = Sketch::new();
    sketch
        .put("clef.attention.head_count_kv", Put::U32s(vec![0, 0, 0, 2]))
        .put("clef.attention.head_count", Put::I32s(vec![7, 0, 0, 4]))
        .put("clef.feed_forward_length", Put::U32s(vec![512; 4]))
        .put("clef.rope.scaling.type", Put::Text("none"))
        .remove("clef.attention.recurrent_layers");
    let file = sketch.write_hollow();
    let gguf = Gguf::open(file.path()).unwrap();
    let same = Sketch::new().write_hollow();
    let plain = Gguf::open(same.path()).unwrap();
    assert_eq!(Backbone::new(&gguf).unwrap().hyperparameters(), Backbone::new(&plain).unwrap().hyperparameters());
    sketch.put("clef.full_attention_interval", Put::U32(2));
    refusal(&sketch, "attention in other layers");
}

#[test]
fn other_architectures_are_refused() {
    for (value, words) in [
        (Some(Put::Text("llama")), "only clef and qwen35"),
        (Some(Put::Text("CLEF")), "only clef and qwen35"),
        (Some(Put::Text("")), "only clef and qwen35"),
        (Some(Put::U32(1)), "no general.architecture"),
        (None, "no general.architecture"),
    ] {
        let error = refused_key("general.architecture", value);
        assert!(error.to_string().contains(words), "{error}");
    }
    // Named qwen35 but with the keys of clef.
    refused_key("general.architecture", Some(Put::Text("qwen35")));
}

#[test]
fn unknown_tensors_inside_layers_are_refused() {
    let mut sketch = Sketch::new();
    sketch.tensor("decision.scales").name = "blk.1.attn_sinks".into();
    let error = refusal(&sketch, "an unknown tensor");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("blk.1.attn_sinks"), "{error}");
}

#[test]
fn vocabularies_that_llama_cpp_would_trip_over_are_refused() {
    use Put::{I32s, Text, U32};
    let kinds = |change: usize, value: i32| {
        let mut kinds = vec![1; 4096];
        kinds[change] = value;
        I32s(kinds)
    };
    for (key, value) in [
        ("tokenizer.ggml.model", None),
        ("tokenizer.ggml.model", Some(Text("llama"))),
        ("tokenizer.ggml.pre", None),
        ("tokenizer.ggml.pre", Some(U32(1))),
        ("tokenizer.ggml.tokens", None),
        ("tokenizer.ggml.tokens", Some(I32s(vec![0; 4096]))),
        ("tokenizer.ggml.tokens", Some(Text("tokens"))),
        ("tokenizer.ggml.token_type", None),
        ("tokenizer.ggml.token_type", Some(I32s(vec![1; 4095]))),
        ("tokenizer.ggml.token_type", Some(kinds(7, 7))),
        ("tokenizer.ggml.token_type", Some(kinds(4095, -1))),
        ("tokenizer.ggml.merges", None),
        ("tokenizer.ggml.merges", Some(I32s(vec![1]))),
        ("tokenizer.ggml.eos_token_id", Some(U32(4096))),
        ("tokenizer.ggml.eos_token_id", Some(Text("</s>"))),
        ("tokenizer.ggml.padding_token_id", Some(U32(u32::MAX))),
        ("tokenizer.ggml.bos_token_id", Some(I32s(vec![1]))),
    ] {
        refused_key(key, value);
    }
}

#[test]
fn a_tokenizer_that_llama_cpp_does_not_know_is_an_error_of_the_load() {
    let mut sketch = Sketch::new();
    sketch.put("tokenizer.ggml.pre", Put::Text("no-such-tokenizer"));
    let error = load(&Gguf::open(sketch.write_hollow().path()).unwrap()).unwrap_err();
    assert!(error.to_string().contains("no-such-tokenizer"), "{error}");
}

#[test]
fn a_qwen35_file_is_the_same_backbone() {
    let mut sketch = Sketch::new();
    sketch.as_qwen35();
    sketch.tensors.retain(|tensor| !tensor.name.starts_with("dec") && tensor.name != "token_types.weight");
    let file = sketch.write_whole();
    let model = load(&Gguf::open(file.path()).unwrap()).unwrap();
    assert_eq!(model.hyperparameters(), F32_MODEL.hyperparameters());
    let hidden = decode(&mut Context::new(&model, &EXACT).unwrap(), 0, &DOC_EXAMPLE[..64], 64);
    let expected = decode(&mut Context::new(&F32_MODEL, &EXACT).unwrap(), 0, &DOC_EXAMPLE[..64], 64);
    // The one has 16-bit weights, the other the same numbers in 32: products of activations differ.
    assert!(distance(&hidden, &expected) < 0.1, "{}", distance(&hidden, &expected));
}

#[test]
fn plain_qwen35_files_of_every_published_type_are_backbones() {
    for kind in Tiny::QUANTS.into_iter().chain([Tiny::BF16]) {
        let mut sketch = Sketch::of(&tiny(kind));
        sketch.as_qwen35();
        sketch.tensors.retain(|tensor| !tensor.name.starts_with("dec") && tensor.name != "token_types.weight");
        let file = sketch.write_hollow();
        let gguf = Gguf::open(file.path()).unwrap();
        let backbone = Backbone::new(&gguf).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert_eq!(backbone.hyperparameters(), F32_MODEL.hyperparameters(), "{kind:?}");
    }
}

#[test]
fn prediction_layers_are_left_out() {
    let mut sketch = Sketch::new();
    sketch.put("clef.block_count", Put::U32(5)).put("clef.nextn_predict_layers", Put::U32(1));
    sketch.tensor("decision.scales").name = "blk.4.nextn.enorm.weight".into();
    sketch.tensor("token_types.weight").name = "blk.4.attn_norm.weight".into();
    let file = sketch.write_whole();
    let gguf = Gguf::open(file.path()).unwrap();
    let backbone = Backbone::new(&gguf).unwrap();
    assert_eq!(backbone.hyperparameters().layers, 4);
    assert!(!backbone.tensors().any(|tensor| tensor.name.starts_with("blk.4.")));
    let model = load(&gguf).unwrap();
    decode(&mut Context::new(&model, &EXACT).unwrap(), 0, &DOC_EXAMPLE[..64], 64);
}

/// A model of any numbers with weights of zero.
#[derive(Debug)]
struct Shape {
    recurrent: Vec<bool>,
    width: u64,
    feed_forward: u64,
    kv_heads: u64,
    heads: u64,
    head_width: u64,
    sections: [i32; 4],
    conv_kernel: u64,
    state_width: u64,
    key_heads: u64,
    value_heads: u64,
}

impl Shape {
    fn random(random: &mut Random) -> Self {
        let kv_heads = 1 + random.below(3) as u64;
        let key_heads = 1 + random.below(3) as u64;
        let head_width = random.pick(&[4, 6, 16, 33, 48, 64, 80, 100, 256]);
        let more_pairs = random.below((head_width / 2 - 1) as usize);
        let mut sections = [1, 1, 0, 0];
        (0..more_pairs).for_each(|_| sections[random.below(4)] += 1);
        Self {
            recurrent: (0..2 + random.below(4))
                .map(|layer| layer < 2 && layer % 2 == 0 || random.below(2) == 0)
                .collect(),
            width: random.pick(&[32, 33, 48, 64, 100, 256]),
            feed_forward: random.pick(&[1, 7, 32, 64]),
            kv_heads,
            heads: kv_heads * (1 + random.below(3) as u64),
            head_width,
            sections,
            conv_kernel: random.pick(&[2, 3, 4, 5, 8, 16]),
            state_width: random.pick(&[16, 17, 20, 32, 64, 100, 128]),
            key_heads,
            value_heads: key_heads * (1 + random.below(3) as u64),
        }
    }

    fn sketch(&self) -> Sketch {
        let mut sketch = Sketch::new();
        let flags = self.recurrent.clone();
        for (suffix, value) in [
            ("block_count", self.recurrent.len() as u64),
            ("embedding_length", self.width),
            ("feed_forward_length", self.feed_forward),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head_width),
            ("attention.value_length", self.head_width),
            ("rope.dimension_count", self.sections.iter().sum::<i32>() as u64 * 2),
            ("ssm.conv_kernel", self.conv_kernel),
            ("ssm.state_size", self.state_width),
            ("ssm.group_count", self.key_heads),
            ("ssm.time_step_rank", self.value_heads),
            ("ssm.inner_size", self.value_heads * self.state_width),
        ] {
            sketch.put(&format!("clef.{suffix}"), Put::U32(value as u32));
        }
        sketch.put("clef.rope.dimension_sections", Put::I32s(self.sections.to_vec()));
        sketch.put("clef.attention.recurrent_layers", Put::Bools(flags));
        sketch.tensors = self.tensors();
        sketch
    }

    fn tensors(&self) -> Vec<TensorInfo> {
        let mut all = vec![("token_embd.weight".to_owned(), vec![self.width, 4096])];
        all.push(("output_norm.weight".to_owned(), vec![self.width]));
        let (values, keys) = (self.value_heads * self.state_width, self.key_heads * self.state_width);
        let channels = 2 * keys + values;
        let (queries, attended) = (self.heads * self.head_width, self.kv_heads * self.head_width);
        for (layer, &recurrent) in self.recurrent.iter().enumerate() {
            let mut tensor = |name: &str, shape: &[u64]| all.push((format!("blk.{layer}.{name}"), shape.to_vec()));
            tensor("attn_norm.weight", &[self.width]);
            tensor("post_attention_norm.weight", &[self.width]);
            tensor("ffn_gate.weight", &[self.width, self.feed_forward]);
            tensor("ffn_up.weight", &[self.width, self.feed_forward]);
            tensor("ffn_down.weight", &[self.feed_forward, self.width]);
            if recurrent {
                tensor("attn_qkv.weight", &[self.width, channels]);
                tensor("attn_gate.weight", &[self.width, values]);
                tensor("ssm_conv1d.weight", &[self.conv_kernel, channels]);
                tensor("ssm_dt.bias", &[self.value_heads]);
                tensor("ssm_a", &[self.value_heads]);
                tensor("ssm_beta.weight", &[self.width, self.value_heads]);
                tensor("ssm_alpha.weight", &[self.width, self.value_heads]);
                tensor("ssm_norm.weight", &[self.state_width]);
                tensor("ssm_out.weight", &[values, self.width]);
            } else {
                tensor("attn_q.weight", &[self.width, 2 * queries]);
                tensor("attn_k.weight", &[self.width, attended]);
                tensor("attn_v.weight", &[self.width, attended]);
                tensor("attn_output.weight", &[queries, self.width]);
                tensor("attn_q_norm.weight", &[self.head_width]);
                tensor("attn_k_norm.weight", &[self.head_width]);
            }
        }
        let info = |(name, lengths): (String, Vec<u64>)| {
            let mut shape = [1; 4];
            shape[..lengths.len()].copy_from_slice(&lengths);
            let bytes = 4 * lengths.iter().product::<u64>();
            TensorInfo { name, shape, dimensions: lengths.len(), kind: TensorType::F32, offset: 0, bytes }
        };
        all.into_iter().map(info).collect()
    }
}

/// An assertion of llama.cpp would end this process; the last seed printed is the one.
#[test]
fn whatever_numbers_are_accepted_load_and_decode() {
    const SEEDS: u64 = 200;
    let mut decoded = 0;
    for seed in 1..=SEEDS {
        let mut random = Random::new(seed);
        let shape = Shape::random(&mut random);
        let file = shape.sketch().write_hollow();
        let gguf = Gguf::open(file.path()).unwrap();
        if Backbone::new(&gguf).is_err() {
            continue;
        }
        eprintln!("seed {seed}: {shape:?}");
        let cache = random.pick(&[CacheType::F32, CacheType::F16, CacheType::Q8_0, CacheType::Q4_0]);
        let flash_attention = random.pick(&[FlashAttention::Auto, FlashAttention::On, FlashAttention::Off]);
        let params = ContextParams {
            cells: 256,
            chunk: 128,
            sequences: 2,
            keys: cache,
            values: cache,
            flash_attention,
            ..EXACT
        };
        let model = match load(&gguf) {
            Ok(model) => model,
            Err(error) => {
                eprintln!("not loaded: {error}");
                continue;
            }
        };
        let mut context = match Context::new(&model, &params) {
            Ok(context) => context,
            Err(error) => {
                eprintln!("no context with {cache:?} {flash_attention:?}: {error}");
                continue;
            }
        };
        for count in [1, 5, 100] {
            let hidden = context.decode(SequenceId(1), &vec![Token(7); count]).unwrap();
            assert_eq!((hidden.width as u64, hidden.values.len()), (shape.width, count * hidden.width));
        }
        context.copy_sequence(SequenceId(1), SequenceId(0)).unwrap();
        context.decode(SequenceId(0), &[Token(1)]).unwrap();
        decoded += 1;
    }
    assert!(decoded > 60, "{decoded} of {SEEDS}");
}
