//! What a file says about its Qwen3.5 backbone, checked before llama.cpp sees it.
//!
//! llama.cpp asserts on contradictions that a damaged file may hold (a head count of zero, a shape that does not
//! follow from the numbers), and an assertion ends the process. So everything it will compute with is read and
//! checked here, and what it is given is a new header that holds those values and nothing else, under the
//! architecture name `qwen35`: that graph has memory, where upstream's own `clef` graph reads a whole prompt at once.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::gguf::{Gguf, HeaderWriter, TensorInfo, TensorType, Value, VirtualGguf};

/// llama.cpp's limit on layers.
const MAX_LAYERS: u64 = 512;
/// Widths beyond this are damage, not models (the largest released backbone is 5,120 wide).
const MAX_WIDTH: u64 = 1 << 17;
const MAX_VOCABULARY: u64 = 1 << 22;

/// The numbers that shape a backbone.
#[derive(Debug, Clone, PartialEq)]
pub struct Hyperparameters {
    /// Decoder layers that are computed (layers for multi-token prediction are left out).
    pub layers: u32,
    /// The context the model was trained with, in tokens.
    pub trained_context: u32,
    /// Width of a hidden state.
    pub width: u32,
    /// Width of the feed-forward layers.
    pub feed_forward: u32,
    /// Query heads of the full-attention layers.
    pub heads: u32,
    /// Key-value heads of the full-attention layers.
    pub kv_heads: u32,
    /// Width of an attention head.
    pub head_width: u32,
    /// How many of a head's dimensions are rotated.
    pub rope_dimensions: u32,
    /// How the rotated dimension pairs are shared between time, height, width and a fourth axis.
    pub rope_sections: [i32; 4],
    /// Base of the rotation frequencies.
    pub rope_base: f32,
    /// Epsilon of the RMS norms.
    pub rms_epsilon: f32,
    /// Taps of the delta net's convolution.
    pub conv_kernel: u32,
    /// Width of a delta-net head, for keys and values alike.
    pub state_width: u32,
    /// Key heads of the delta net.
    pub key_heads: u32,
    /// Value heads of the delta net.
    pub value_heads: u32,
    /// Which layers are recurrent (gated delta net); the others have full attention.
    pub recurrent: Vec<bool>,
    /// Rows of the embedding table.
    pub vocabulary: u32,
}

impl Hyperparameters {
    /// Layers with full attention, which keep keys and values per token.
    pub fn attention_layers(&self) -> u32 {
        self.recurrent.iter().filter(|&&recurrent| !recurrent).count() as u32
    }

    /// Bytes of keys and values per token and cell, for caches whose elements take `k_bits` and `v_bits`.
    pub fn kv_bytes_per_token(&self, k_bits: f64, v_bits: f64) -> u64 {
        let elements = f64::from(self.attention_layers()) * f64::from(self.kv_heads * self.head_width);
        (elements * (k_bits + v_bits) / 8.0).ceil() as u64
    }

    /// Bytes of recurrent state per sequence (32-bit floats, whatever the model's quantization).
    pub fn recurrent_bytes_per_sequence(&self) -> u64 {
        let layers = u64::from(self.layers - self.attention_layers());
        let state = u64::from(self.value_heads) * u64::from(self.state_width).pow(2);
        let convolution = u64::from(self.conv_kernel - 1) * self.conv_channels();
        layers * 4 * (state + convolution)
    }

    fn key_width(&self) -> u64 {
        u64::from(self.key_heads) * u64::from(self.state_width)
    }

    fn value_width(&self) -> u64 {
        u64::from(self.value_heads) * u64::from(self.state_width)
    }

    fn conv_channels(&self) -> u64 {
        2 * self.key_width() + self.value_width()
    }
}

/// A checked backbone, ready to be loaded.
#[derive(Debug)]
pub struct Backbone<'a> {
    gguf: &'a Gguf,
    hyperparameters: Hyperparameters,
    tensors: Vec<&'a TensorInfo>,
}

impl<'a> Backbone<'a> {
    /// Reads and checks the backbone of a `clef` or `qwen35` file.
    ///
    /// # Errors
    /// If the file is of another architecture, lacks something, or contradicts itself.
    pub fn new(gguf: &'a Gguf) -> Result<Self> {
        let architecture = gguf
            .get_str("general.architecture")
            .ok_or_else(|| Error::invalid(format_args!("{}: no general.architecture", gguf.path().display())))?;
        if !matches!(architecture, "clef" | "qwen35") {
            return Err(Error::unsupported(format_args!(
                "{}: the architecture is {:?}; only clef and qwen35 models can decide",
                gguf.path().display(),
                shortened(architecture)
            )));
        }
        let reader = Reader { gguf, architecture };
        let with_path = |e: Error| Error::new(e.kind(), format_args!("{}: {e}", gguf.path().display()));
        let hyperparameters = reader.hyperparameters().map_err(with_path)?;
        let tensors = reader.tensors(&hyperparameters).map_err(with_path)?;
        reader.vocabulary(&hyperparameters).map_err(with_path)?;
        Ok(Self { gguf, hyperparameters, tensors })
    }

    /// The same with the file's `output.weight`, if it has one.
    ///
    /// # Errors
    /// If its shape or type is not what an output needs.
    pub fn with_output(mut self) -> Result<Self> {
        let Some(output) = self.gguf.tensor(OUTPUT) else { return Ok(self) };
        let h = &self.hyperparameters;
        let reader = Reader { gguf: self.gguf, architecture: "" };
        reader
            .check(OUTPUT, &[u64::from(h.width), u64::from(h.vocabulary)], false)
            .map_err(|e| Error::new(e.kind(), format_args!("{}: {e}", self.gguf.path().display())))?;
        self.tensors.push(output);
        Ok(self)
    }

    /// The numbers that shape it.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.hyperparameters
    }

    /// The tensors that will be loaded.
    pub fn tensors(&self) -> impl Iterator<Item = &TensorInfo> {
        self.tensors.iter().copied()
    }

    /// The file as a plain `qwen35` model without head and prediction layers, and without `output.weight` unless it was
    /// [asked for](Backbone::with_output).
    ///
    /// Without `output.weight` the loader ties the output to `token_embd.weight`; no decision evaluates it, so hidden
    /// states are the same and 0.8 to 2 GB of a 9B file stay on disk.
    pub fn to_virtual(&self) -> VirtualGguf {
        let h = &self.hyperparameters;
        let mut header = HeaderWriter::default();
        header.put_str("general.architecture", "qwen35");
        header.put_u32("qwen35.block_count", h.layers);
        header.put_u32("qwen35.context_length", h.trained_context);
        header.put_u32("qwen35.embedding_length", h.width);
        header.put_u32("qwen35.feed_forward_length", h.feed_forward);
        header.put_u32("qwen35.attention.head_count", h.heads);
        header.put_u32("qwen35.attention.head_count_kv", h.kv_heads);
        header.put_u32("qwen35.attention.key_length", h.head_width);
        header.put_u32("qwen35.attention.value_length", h.head_width);
        header.put_f32("qwen35.attention.layer_norm_rms_epsilon", h.rms_epsilon);
        header.put_u32("qwen35.rope.dimension_count", h.rope_dimensions);
        header.put_i32_array("qwen35.rope.dimension_sections", &h.rope_sections);
        header.put_f32("qwen35.rope.freq_base", h.rope_base);
        header.put_u32("qwen35.ssm.conv_kernel", h.conv_kernel);
        header.put_u32("qwen35.ssm.state_size", h.state_width);
        header.put_u32("qwen35.ssm.group_count", h.key_heads);
        header.put_u32("qwen35.ssm.time_step_rank", h.value_heads);
        header.put_u32("qwen35.ssm.inner_size", h.value_heads * h.state_width);
        header.put_bool_array("qwen35.attention.recurrent_layers", &h.recurrent);
        header.put_str("tokenizer.ggml.model", "gpt2");
        for key in ["tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"]
        {
            header.copy(self.gguf, key);
        }
        for key in SPECIAL_TOKENS {
            if let Some(id) = self.gguf.get(key).and_then(Value::as_u64) {
                header.put_u32(key, id as u32);
            }
        }
        header.put_bool("tokenizer.ggml.add_bos_token", false);
        header.finish(self.gguf, self.tensors.iter().copied())
    }
}

/// The matrix that turns hidden states into logits.
const OUTPUT: &str = "output.weight";

const SPECIAL_TOKENS: [&str; 3] =
    ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.padding_token_id", "tokenizer.ggml.bos_token_id"];

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

struct Reader<'a> {
    gguf: &'a Gguf,
    architecture: &'a str,
}

impl<'a> Reader<'a> {
    fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.architecture)
    }

    fn number(&self, suffix: &str, range: std::ops::RangeInclusive<u64>) -> Result<u32> {
        let key = self.key(suffix);
        let value = self.gguf.get(&key).ok_or_else(|| Error::invalid(format_args!("{key} is missing")))?;
        let number = value.as_u64().filter(|number| range.contains(number)).ok_or_else(|| {
            Error::invalid(format_args!("{key} must be {} to {}, it is {}", range.start(), range.end(), show(value)))
        })?;
        Ok(number as u32)
    }

    fn optional_number(&self, suffix: &str, range: std::ops::RangeInclusive<u64>, default: u32) -> Result<u32> {
        if self.gguf.get(&self.key(suffix)).is_none() { Ok(default) } else { self.number(suffix, range) }
    }

    /// A number that may be stated per layer, as long as all layers that count agree.
    fn uniform(&self, suffix: &str, layers: &[bool]) -> Result<u32> {
        let key = self.key(suffix);
        let Some(Value::Array(array)) = self.gguf.get(&key) else {
            return self.number(suffix, 1..=MAX_WIDTH);
        };
        let mut values = array.iter().map(Value::as_u64).zip(layers).filter(|(_, counts)| **counts).map(|(v, _)| v);
        let first = values.next().flatten().filter(|value| (1..=MAX_WIDTH).contains(value));
        match first {
            Some(first) if array.len() >= layers.len() && values.all(|value| value == Some(first)) => Ok(first as u32),
            _ => Err(Error::unsupported(format_args!("{key} differs between layers"))),
        }
    }

    fn float(&self, suffix: &str, range: std::ops::RangeInclusive<f64>) -> Result<f32> {
        let key = self.key(suffix);
        match self.gguf.get(&key) {
            Some(Value::Float(value)) if range.contains(&value) => Ok(value as f32),
            Some(value) => Err(Error::invalid(format_args!(
                "{key} must be a float from {:e} to {:e}, it is {}",
                range.start(),
                range.end(),
                show(value)
            ))),
            None => Err(Error::invalid(format_args!("{key} is missing"))),
        }
    }

    fn hyperparameters(&self) -> Result<Hyperparameters> {
        let all_layers = self.number("block_count", 1..=MAX_LAYERS)?;
        let prediction = self.optional_number("nextn_predict_layers", 0..=u64::from(all_layers) - 1, 0)?;
        let layers = all_layers - prediction;
        let recurrent = self.recurrent(layers)?;
        let attention: Vec<bool> = recurrent.iter().map(|recurrent| !recurrent).collect();
        if !(recurrent.contains(&true) && attention.contains(&true)) {
            // llama.cpp's memory for each of the two kinds asserts that it is not empty.
            return Err(Error::unsupported("all layers are of one kind, recurrent and full attention are expected"));
        }
        let embedding = self
            .gguf
            .tensor("token_embd.weight")
            .ok_or_else(|| Error::invalid("the tensor token_embd.weight is missing"))?;
        let head_width = self.number("attention.key_length", 2..=4096)?;
        let value_width = self.number("attention.value_length", 2..=4096)?;
        let inner = self.number("ssm.inner_size", 1..=MAX_WIDTH)?;
        self.refuse_rope_scaling()?;
        let hyperparameters = Hyperparameters {
            layers,
            trained_context: self.number("context_length", 1..=1 << 26)?,
            width: self.number("embedding_length", 32..=MAX_WIDTH)?,
            feed_forward: self.uniform("feed_forward_length", &vec![true; layers as usize])?,
            heads: self.uniform("attention.head_count", &attention)?,
            kv_heads: self.uniform("attention.head_count_kv", &attention)?,
            head_width,
            rope_dimensions: self.number("rope.dimension_count", 2..=u64::from(head_width))?,
            rope_sections: self.rope_sections()?,
            rope_base: self.float("rope.freq_base", 1.0..=1e12)?,
            rms_epsilon: self.float("attention.layer_norm_rms_epsilon", 1e-12..=1e-1)?,
            conv_kernel: self.number("ssm.conv_kernel", 2..=16)?,
            state_width: self.number("ssm.state_size", 16..=1024)?,
            key_heads: self.number("ssm.group_count", 1..=1024)?,
            value_heads: self.number("ssm.time_step_rank", 1..=1024)?,
            recurrent,
            vocabulary: u32::try_from(embedding.shape[1])
                .ok()
                .filter(|&rows| u64::from(rows) <= MAX_VOCABULARY)
                .ok_or_else(|| Error::invalid(format_args!("{} rows of token embeddings", embedding.shape[1])))?,
        };
        let h = &hyperparameters;
        let contradictions = [
            (value_width != head_width, format!("attention.value_length {value_width}, key_length {head_width}")),
            (!h.heads.is_multiple_of(h.kv_heads), format!("{} heads on {} key-value heads", h.heads, h.kv_heads)),
            (!h.rope_dimensions.is_multiple_of(2), format!("{} rotated dimensions", h.rope_dimensions)),
            (
                h.rope_sections.iter().sum::<i32>() * 2 != h.rope_dimensions as i32,
                format!("rope sections {:?} for {} rotated dimensions", h.rope_sections, h.rope_dimensions),
            ),
            // Without them llama.cpp would take the rotation for an ordinary one, or ggml end the process.
            (h.rope_sections[..2].contains(&0), format!("rope sections {:?}", h.rope_sections)),
            (
                !h.value_heads.is_multiple_of(h.key_heads),
                format!("{} delta-net value heads on {} key heads", h.value_heads, h.key_heads),
            ),
            (
                u64::from(inner) != h.value_width(),
                format!("ssm.inner_size {inner} for {} value heads of {}", h.value_heads, h.state_width),
            ),
        ];
        match contradictions.into_iter().find(|(wrong, _)| *wrong) {
            Some((_, what)) => Err(Error::invalid(format_args!("the numbers contradict each other: {what}"))),
            None => Ok(hyperparameters),
        }
    }

    /// Which layers are recurrent: a list, or every layer but each n-th.
    fn recurrent(&self, layers: u32) -> Result<Vec<bool>> {
        let key = self.key("attention.recurrent_layers");
        if let Some(value) = self.gguf.get(&key) {
            let flags: Option<Vec<bool>> = match value {
                Value::Array(array) if array.len() <= MAX_LAYERS as usize => array
                    .iter()
                    .map(|value| match value {
                        Value::Bool(flag) => Some(flag),
                        other => other.as_u64().map(|number| number != 0),
                    })
                    .collect(),
                _ => None,
            };
            let mut flags = flags
                .filter(|flags| flags.len() >= layers as usize)
                .ok_or_else(|| Error::invalid(format_args!("{key} must hold {layers} flags")))?;
            flags.truncate(layers as usize);
            return Ok(flags);
        }
        let interval = self.optional_number("full_attention_interval", 1..=MAX_LAYERS, 4)?;
        Ok((1..=layers).map(|layer| !layer.is_multiple_of(interval)).collect())
    }

    fn rope_sections(&self) -> Result<[i32; 4]> {
        let key = self.key("rope.dimension_sections");
        let sections: Option<Vec<i32>> = match self.gguf.get(&key) {
            Some(Value::Array(array)) if (3..=4).contains(&array.len()) => array
                .iter()
                .map(|value| value.as_u64().filter(|&value| value <= 4096).map(|value| value as i32))
                .collect(),
            _ => None,
        };
        let mut out = [0; 4];
        let sections = sections.ok_or_else(|| Error::invalid(format_args!("{key} must hold four small numbers")))?;
        out[..sections.len()].copy_from_slice(&sections);
        Ok(out)
    }

    /// A scaled rotation would change every answer; leaving the keys out silently is not an option.
    fn refuse_rope_scaling(&self) -> Result<()> {
        let prefix = self.key("rope.scaling.");
        match self.gguf.keys().find(|key| key.starts_with(&prefix)) {
            Some(key) if self.gguf.get_str(&self.key("rope.scaling.type")) != Some("none") => {
                Err(Error::unsupported(format_args!("{} is set; scaled rotations are not supported", shortened(key))))
            }
            _ => Ok(()),
        }
    }

    /// Collects the backbone's tensors and checks that each has the shape and a type that the graph needs.
    fn tensors(&self, h: &Hyperparameters) -> Result<Vec<&'a TensorInfo>> {
        let width = u64::from(h.width);
        self.check("token_embd.weight", &[width, u64::from(h.vocabulary)], false)?;
        self.check("output_norm.weight", &[width], true)?;
        for (index, &recurrent) in h.recurrent.iter().enumerate() {
            self.check_layer(h, index, recurrent)?;
        }
        let layer_of = |name: &str| name.strip_prefix("blk.")?.split('.').next()?.parse::<u32>().ok();
        let all_layers = self.number("block_count", 1..=MAX_LAYERS)?;
        let beyond = |name: &str| layer_of(name).is_some_and(|layer| layer >= all_layers);
        if let Some(tensor) = self.gguf.tensors().iter().find(|tensor| beyond(&tensor.name)) {
            return Err(Error::invalid(format_args!("the tensor {} lies beyond the {all_layers} layers", tensor.name)));
        }
        let kept: Vec<&TensorInfo> = self
            .gguf
            .tensors()
            .iter()
            .filter(|tensor| match tensor.name.as_str() {
                "token_embd.weight" | "output_norm.weight" => true,
                name => layer_of(name).is_some_and(|layer| layer < h.layers),
            })
            .collect();
        // The unknown ones would change what is computed, or be loaded for nothing.
        let known = self.known_tensors(h);
        match kept.iter().find(|tensor| !known.contains(tensor.name.as_str())) {
            Some(tensor) => Err(Error::unsupported(format_args!("the tensor {} is unknown", tensor.name))),
            None => Ok(kept),
        }
    }

    fn known_tensors(&self, h: &Hyperparameters) -> HashSet<String> {
        let mut names = HashSet::from(["token_embd.weight".to_owned(), "output_norm.weight".to_owned()]);
        for (index, &recurrent) in h.recurrent.iter().enumerate() {
            names.extend(layer_tensors(h, recurrent).map(|(name, _, _)| format!("blk.{index}.{name}")));
        }
        names
    }

    fn check_layer(&self, h: &Hyperparameters, index: usize, recurrent: bool) -> Result<()> {
        for (name, shape, plain) in layer_tensors(h, recurrent) {
            self.check(&format!("blk.{index}.{name}"), &shape, plain)?;
        }
        Ok(())
    }

    fn check(&self, name: &str, shape: &[u64], plain: bool) -> Result<()> {
        let tensor =
            self.gguf.tensor(name).ok_or_else(|| Error::invalid(format_args!("the tensor {name} is missing")))?;
        let mut expected = [1; 4];
        expected[..shape.len()].copy_from_slice(shape);
        if tensor.shape != expected {
            return Err(Error::invalid(format_args!(
                "the tensor {name} has the shape {:?}, {expected:?} is expected",
                tensor.shape
            )));
        }
        if plain && tensor.kind != TensorType::F32 {
            return Err(Error::unsupported(format_args!("the tensor {name} must be F32, it is {:?}", tensor.kind)));
        }
        if !tensor.kind.is_weight() {
            return Err(Error::unsupported(format_args!("the tensor {name} has the type {:?}", tensor.kind)));
        }
        Ok(())
    }

    /// Checks what llama.cpp's tokenizer takes for granted.
    fn vocabulary(&self, h: &Hyperparameters) -> Result<()> {
        match self.gguf.get_str("tokenizer.ggml.model") {
            Some("gpt2") => {}
            other => {
                let other = shortened(other.unwrap_or("missing"));
                return Err(Error::unsupported(format_args!("tokenizer.ggml.model must be gpt2, it is {other:?}")));
            }
        }
        if self.gguf.get_str("tokenizer.ggml.pre").is_none() {
            return Err(Error::invalid("tokenizer.ggml.pre is missing"));
        }
        let tokens = self.array("tokenizer.ggml.tokens")?;
        if tokens.len() as u64 != u64::from(h.vocabulary) {
            return Err(Error::invalid(format_args!("{} tokens for {} embeddings", tokens.len(), h.vocabulary)));
        }
        let mut seen = HashSet::with_capacity(tokens.len());
        for token in tokens.strings("tokenizer.ggml.tokens")? {
            if std::str::from_utf8(token).is_err() || token.contains(&0) {
                return Err(Error::invalid(format_args!("token {:?} is not text", String::from_utf8_lossy(token))));
            }
            if !seen.insert(token) {
                return Err(Error::invalid(format_args!("token {:?} appears twice", String::from_utf8_lossy(token))));
            }
        }
        let kinds = self.array("tokenizer.ggml.token_type")?;
        if kinds.len() != tokens.len() || kinds.iter().any(|kind| kind.as_u64().is_none_or(|kind| kind > 6)) {
            return Err(Error::invalid("tokenizer.ggml.token_type must hold a number from 0 to 6 for each token"));
        }
        for merge in self.array("tokenizer.ggml.merges")?.strings("tokenizer.ggml.merges")? {
            let sound = std::str::from_utf8(merge).is_ok_and(|merge| merge.chars().skip(1).any(|c| c == ' '));
            if !sound || merge.contains(&0) {
                return Err(Error::invalid(format_args!("merge {:?} is not a pair", String::from_utf8_lossy(merge))));
            }
        }
        for key in SPECIAL_TOKENS {
            if let Some(value) = self.gguf.get(key)
                && value.as_u64().is_none_or(|id| id >= u64::from(h.vocabulary))
            {
                return Err(Error::invalid(format_args!("{key} is {}, not a token", show(value))));
            }
        }
        Ok(())
    }

    fn array(&self, key: &str) -> Result<crate::gguf::Array<'a>> {
        match self.gguf.get(key) {
            Some(Value::Array(array)) => Ok(array),
            Some(_) => Err(Error::invalid(format_args!("{key} is not an array"))),
            None => Err(Error::invalid(format_args!("{key} is missing"))),
        }
    }
}

/// Name, shape and whether it must be 32-bit floats, of each tensor of a layer.
fn layer_tensors(h: &Hyperparameters, recurrent: bool) -> impl Iterator<Item = (&'static str, Vec<u64>, bool)> {
    let width = u64::from(h.width);
    let feed_forward = u64::from(h.feed_forward);
    let head = u64::from(h.head_width);
    let (queries, keys) = (u64::from(h.heads) * head, u64::from(h.kv_heads) * head);
    let values = u64::from(h.value_heads);
    let mut all = vec![
        ("attn_norm.weight", vec![width], true),
        ("post_attention_norm.weight", vec![width], true),
        ("ffn_gate.weight", vec![width, feed_forward], false),
        ("ffn_up.weight", vec![width, feed_forward], false),
        ("ffn_down.weight", vec![feed_forward, width], false),
    ];
    if recurrent {
        all.extend([
            ("attn_qkv.weight", vec![width, h.conv_channels()], false),
            ("attn_gate.weight", vec![width, h.value_width()], false),
            ("ssm_conv1d.weight", vec![u64::from(h.conv_kernel), h.conv_channels()], true),
            ("ssm_dt.bias", vec![values], true),
            ("ssm_a", vec![values], true),
            ("ssm_beta.weight", vec![width, values], false),
            ("ssm_alpha.weight", vec![width, values], false),
            ("ssm_norm.weight", vec![u64::from(h.state_width)], true),
            ("ssm_out.weight", vec![h.value_width(), width], false),
        ]);
    } else {
        all.extend([
            // Queries and the gate of the attention's output come from one product.
            ("attn_q.weight", vec![width, 2 * queries], false),
            ("attn_k.weight", vec![width, keys], false),
            ("attn_v.weight", vec![width, keys], false),
            ("attn_output.weight", vec![queries, width], false),
            ("attn_q_norm.weight", vec![head], true),
            ("attn_k_norm.weight", vec![head], true),
        ]);
    }
    all.into_iter()
}

fn show(value: Value<'_>) -> String {
    match value {
        Value::Unsigned(number) => number.to_string(),
        Value::Signed(number) => number.to_string(),
        // As people write it, but for what would be a long row of zeros.
        Value::Float(number) if number == 0.0 || (1e-4..1e9).contains(&number.abs()) => number.to_string(),
        Value::Float(number) => format!("{number:e}"),
        Value::Bool(flag) => flag.to_string(),
        Value::String(bytes) => format!("{:?}", shortened(&String::from_utf8_lossy(bytes))),
        Value::Array(array) => format!("an array of {}", array.len()),
    }
}
