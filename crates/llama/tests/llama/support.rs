//! Files with something changed, and models that are loaded once.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use clef_llama::gguf::{Array, Gguf, HeaderWriter, TensorInfo, TensorType, Value, ValueType};
use clef_llama::{CacheType, Context, ContextParams, Device, FlashAttention, Model, ModelParams, SequenceId, Token};
pub(crate) use clef_testkit::Random;
use clef_testkit::{Tiny, golden, tiny};
use tempfile::NamedTempFile;

pub(crate) const F16: u32 = 1;
pub(crate) const Q4_K: u32 = 12;
pub(crate) const I32: u32 = 26;

pub(crate) fn kind(id: u32) -> TensorType {
    TensorType::from_id(id).unwrap()
}

/// A metadata value to be written.
#[derive(Debug, Clone)]
pub(crate) enum Put {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(&'static str),
    I32s(Vec<i32>),
    U32s(Vec<u32>),
    Bools(Vec<bool>),
}

/// A header in the making: that of a sound file, with changes.
pub(crate) struct Sketch {
    source: Gguf,
    changed: BTreeMap<String, Option<Put>>,
    pub(crate) tensors: Vec<TensorInfo>,
    /// Architecture under which keys are written.
    architecture: &'static str,
}

impl Sketch {
    /// Of clef-tiny.
    pub(crate) fn new() -> Self {
        Self::of(&tiny(Tiny::BF16))
    }

    pub(crate) fn of(path: &Path) -> Self {
        let source = Gguf::open(path).unwrap();
        let tensors = source.tensors().to_vec();
        Self { source, changed: BTreeMap::new(), tensors, architecture: "clef" }
    }

    pub(crate) fn put(&mut self, key: &str, value: Put) -> &mut Self {
        self.changed.insert(key.to_owned(), Some(value));
        self
    }

    pub(crate) fn remove(&mut self, key: &str) -> &mut Self {
        self.changed.insert(key.to_owned(), None);
        self
    }

    pub(crate) fn as_qwen35(&mut self) -> &mut Self {
        self.architecture = "qwen35";
        self.put("general.architecture", Put::Text("qwen35"))
    }

    pub(crate) fn tensor(&mut self, name: &str) -> &mut TensorInfo {
        self.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap()
    }

    fn finish(&self) -> clef_llama::gguf::VirtualGguf {
        let mut header = HeaderWriter::default();
        let keys = self.source.keys().filter(|key| !self.changed.contains_key(*key));
        for key in keys {
            match key.strip_prefix("clef.").filter(|_| self.architecture != "clef") {
                Some(suffix) => {
                    let value = as_put(self.source.get(key).unwrap());
                    write(&mut header, &format!("{}.{suffix}", self.architecture), value.as_ref());
                }
                None => header.copy(&self.source, key),
            }
        }
        for (key, value) in &self.changed {
            write(&mut header, key, value.as_ref());
        }
        header.finish(&self.source, &self.tensors)
    }

    /// Writes the file with tensor data that is a hole: zeros when read, no room on the disk.
    pub(crate) fn write_hollow(&self) -> NamedTempFile {
        let image = self.finish();
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(image.header()).unwrap();
        file.as_file().set_len(image.length()).unwrap();
        file
    }

    /// Writes the file with the data that tensors name in the fixture.
    pub(crate) fn write_whole(&self) -> NamedTempFile {
        let image = self.finish();
        let mut bytes = vec![0; image.length() as usize];
        assert_eq!(image.read_at(0, &mut bytes).unwrap(), bytes.len());
        written(&bytes)
    }
}

pub(crate) fn written(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn write(header: &mut HeaderWriter, key: &str, value: Option<&Put>) {
    match value {
        None => {}
        Some(Put::U32(value)) => header.put_u32(key, *value),
        Some(Put::F32(value)) => header.put_f32(key, *value),
        Some(Put::Bool(value)) => header.put_bool(key, *value),
        Some(Put::Text(value)) => header.put_str(key, value),
        Some(Put::I32s(values)) => header.put_i32_array(key, values),
        Some(Put::U32s(values)) => header.put_u32_array(key, values),
        Some(Put::Bools(values)) => header.put_bool_array(key, values),
    }
}

/// The value in a form that can be written again; none for texts, which no renamed key of the fixture needs.
fn as_put(value: Value<'_>) -> Option<Put> {
    let numbers = |array: Array<'_>| match array.kind() {
        ValueType::Bool => Put::Bools(array.iter().map(|value| value == Value::Bool(true)).collect()),
        _ => Put::I32s(array.iter().map(|value| value.as_u64().unwrap() as i32).collect()),
    };
    match value {
        Value::Unsigned(value) => Some(Put::U32(value as u32)),
        Value::Signed(value) => Some(Put::U32(value as u32)),
        Value::Float(value) => Some(Put::F32(value as f32)),
        Value::Bool(value) => Some(Put::Bool(value)),
        Value::Array(array) => Some(numbers(array)),
        Value::String(_) => None,
    }
}

pub(crate) fn load(gguf: &Gguf) -> clef_llama::Result<Model> {
    // CPU only, whatever the build has: what is tested here are numbers.
    let params = ModelParams { gpu_layers: 0, ..ModelParams::default() };
    Model::load(gguf, &params, &mut |_, _| true)
}

fn loaded(kind: Tiny) -> Model {
    let model = load(&Gguf::open(&tiny(kind)).unwrap()).unwrap();
    assert_eq!(model.output_device(), Device::cpu());
    model
}

pub(crate) static F32_MODEL: LazyLock<Model> = LazyLock::new(|| loaded(Tiny::F32));
pub(crate) static Q4_MODEL: LazyLock<Model> = LazyLock::new(|| loaded(Tiny::Q4_K_M));

/// The tokens of the record `doc-example`.
pub(crate) static DOC_EXAMPLE: LazyLock<Vec<Token>> = LazyLock::new(|| {
    let record = golden().into_iter().find(|record| record.name == "doc-example").unwrap();
    record.input_ids.into_iter().map(Token).collect()
});

pub(crate) const EXACT: ContextParams = ContextParams {
    cells: 512,
    chunk: 512,
    sequences: 4,
    threads: 1,
    flash_attention: FlashAttention::Off,
    keys: CacheType::F32,
    values: CacheType::F32,
};

/// As programs use it.
pub(crate) const USUAL: ContextParams =
    ContextParams { flash_attention: FlashAttention::Auto, keys: CacheType::F16, values: CacheType::F16, ..EXACT };

pub(crate) fn decode(context: &mut Context, sequence: u32, tokens: &[Token], chunk: usize) -> Vec<f32> {
    let mut all = Vec::new();
    for part in tokens.chunks(chunk) {
        let hidden = context.decode(SequenceId(sequence), part).unwrap();
        assert_eq!(hidden.values.len(), part.len() * hidden.width);
        all.extend_from_slice(hidden.values);
    }
    all
}

pub(crate) fn distance(left: &[f32], right: &[f32]) -> f32 {
    assert_eq!(left.len(), right.len());
    assert!(left.iter().chain(right).all(|value| value.is_finite()));
    left.iter().zip(right).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
