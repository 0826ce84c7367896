//! What a projector file says about its vision tower, checked before the library sees it.
//!
//! The library that computes the tower (mtmd) asserts on values of another type than it expects, and on tensors that do not
//! fit each other, and an assertion ends the process. It loads files by path, so there is no header of our own to give it
//! as with a backbone: the file as it is has to be sound in everything that is read of it.

use crate::error::{Error, Result};
use crate::gguf::{Gguf, TensorInfo, TensorType, Value, ValueType};

/// The one family of towers that Clef models are shown pictures through.
const FAMILY: &str = "qwen3vl_merger";

/// Frames that are seen as one: the tower has a patch embedding for each.
pub const FRAMES_PER_STEP: u32 = 2;

/// Values beyond these are damage, not towers.
const MAX_WIDTH: u64 = 1 << 16;
const MAX_LAYERS: u64 = 256;

/// Keys that the library reads of any tower, with the one type that it takes them in.
const KEY_TYPES: [(&str, ValueType); 21] = [
    ("general.name", ValueType::String),
    ("general.description", ValueType::String),
    ("clip.projector_type", ValueType::String),
    ("clip.vision.projector_type", ValueType::String),
    ("clip.has_vision_encoder", ValueType::Bool),
    ("clip.has_audio_encoder", ValueType::Bool),
    ("clip.has_gen_audio_encoder", ValueType::Bool),
    ("clip.use_gelu", ValueType::Bool),
    ("clip.use_silu", ValueType::Bool),
    ("clip.vision.embedding_length", ValueType::U32),
    ("clip.vision.feed_forward_length", ValueType::U32),
    ("clip.vision.block_count", ValueType::U32),
    ("clip.vision.projection_dim", ValueType::U32),
    ("clip.vision.attention.head_count", ValueType::U32),
    ("clip.vision.attention.layer_norm_epsilon", ValueType::F32),
    ("clip.vision.image_size", ValueType::U32),
    ("clip.vision.patch_size", ValueType::U32),
    ("clip.vision.spatial_merge_size", ValueType::U32),
    ("clip.vision.image_mean", ValueType::Array),
    ("clip.vision.image_std", ValueType::Array),
    ("clip.vision.is_deepstack_layers", ValueType::Array),
];

/// Keys that belong to towers of other families, and that the library would read all the same.
const FOREIGN_KEYS: [&str; 8] = [
    "clip.vision.attention.head_dim",
    "clip.vision.attention.head_count_kv",
    "clip.vision.feature_layer",
    "clip.vision.image_grid_pinpoints",
    "clip.vision.mm_patch_merge_type",
    "clip.vision.n_wa_pattern",
    "clip.minicpmv_version",
    "clip.minicpmv_query_num",
];

/// The numbers that shape a vision tower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TowerShape {
    /// Layers.
    pub layers: u32,
    /// Width of a patch's state.
    pub width: u32,
    /// Width of the feed-forward layers.
    pub feed_forward: u32,
    /// Attention heads.
    pub heads: u32,
    /// Pixels along each side of a patch.
    pub patch: u32,
    /// Patches along each side of what becomes one token.
    pub merge: u32,
    /// Width of an embedding, which must be the backbone's.
    pub embedding: u32,
}

impl TowerShape {
    /// Pixels along each side of a token.
    pub fn token_side(&self) -> u32 {
        self.patch * self.merge
    }
}

/// A checked projector.
#[derive(Debug)]
pub struct Projector<'a> {
    gguf: &'a Gguf,
    shape: TowerShape,
}

impl<'a> Projector<'a> {
    /// Reads and checks a projector file.
    ///
    /// # Errors
    /// If the file is no projector, one of another family, or contradicts itself.
    pub fn new(gguf: &'a Gguf) -> Result<Self> {
        let with_path = |e: Error| Error::new(e.kind(), format_args!("{}: {e}", gguf.path().display()));
        if gguf.part_count() > 1 {
            let what = "a projector in several files cannot be read; llama.cpp's gguf-split --merge makes one of them";
            return Err(with_path(Error::unsupported(what)));
        }
        let reader = Reader { gguf };
        let shape = reader.shape().map_err(with_path)?;
        reader.tensors(&shape).map_err(with_path)?;
        Ok(Self { gguf, shape })
    }

    /// The file.
    pub fn gguf(&self) -> &'a Gguf {
        self.gguf
    }

    /// The numbers that shape it.
    pub fn shape(&self) -> &TowerShape {
        &self.shape
    }

    /// Bytes of its weights.
    pub fn weight_bytes(&self) -> u64 {
        self.gguf.tensors().iter().map(|tensor| tensor.bytes).sum()
    }
}

struct Reader<'a> {
    gguf: &'a Gguf,
}

impl Reader<'_> {
    fn shape(&self) -> Result<TowerShape> {
        let architecture = self.gguf.get_str("general.architecture").unwrap_or("none");
        if architecture != "clip" {
            return Err(Error::unsupported(format_args!(
                "the architecture is {:?}, a projector's is \"clip\": this is not the file that comes as mmproj",
                shortened(architecture)
            )));
        }
        for (key, kind) in KEY_TYPES {
            if let Some((found, _)) = self.gguf.raw(key)
                && found != kind
            {
                return Err(Error::invalid(format_args!("{key} is of type {found:?}, not {kind:?}")));
            }
        }
        let family = ["clip.projector_type", "clip.vision.projector_type"]
            .into_iter()
            .filter_map(|key| self.gguf.get_str(key))
            .find(|family| !family.is_empty())
            .ok_or_else(|| Error::invalid("clip.projector_type is missing"))?;
        if family != FAMILY {
            return Err(Error::unsupported(format_args!(
                "the projector is of the family {:?}, Clef models take {FAMILY:?}",
                shortened(family)
            )));
        }
        if !self.flag("clip.has_vision_encoder") {
            return Err(Error::unsupported("the projector has no vision tower"));
        }
        if self.flag("clip.has_audio_encoder") || self.flag("clip.has_gen_audio_encoder") {
            return Err(Error::unsupported("the projector has an audio encoder, Clef's have none"));
        }
        if let Some(key) = FOREIGN_KEYS.into_iter().find(|key| self.gguf.get(key).is_some()) {
            return Err(Error::unsupported(format_args!("{key} is set, Clef's projectors have no such key")));
        }
        if !self.flag("clip.use_gelu") {
            return Err(Error::unsupported("clip.use_gelu is not set, Clef's towers compute with GELU"));
        }
        self.floats("clip.vision.image_mean", 3, -10.0..=10.0)?;
        self.floats("clip.vision.image_std", 3, 1e-3..=10.0)?;
        match self.gguf.get("clip.vision.attention.layer_norm_epsilon") {
            Some(Value::Float(epsilon)) if (1e-12..=1e-1).contains(&epsilon) => {}
            _ => return Err(Error::invalid("clip.vision.attention.layer_norm_epsilon must be 1e-12 to 1e-1")),
        }
        let shape = TowerShape {
            layers: self.number("block_count", 1..=MAX_LAYERS)?,
            width: self.number("embedding_length", 8..=MAX_WIDTH)?,
            feed_forward: self.number("feed_forward_length", 1..=MAX_WIDTH)?,
            heads: self.number("attention.head_count", 1..=1024)?,
            patch: self.number("patch_size", 2..=256)?,
            merge: self.number("spatial_merge_size", 2..=2)?,
            embedding: self.number("projection_dim", 32..=MAX_WIDTH)?,
        };
        // The library refuses larger ones, in words of its own.
        self.number("image_size", 1..=1 << 13)?;
        // Rotary positions take a quarter of a head for each of four axes.
        if !shape.width.is_multiple_of(shape.heads * 4) {
            return Err(Error::invalid(format_args!("{} heads of a width of {}", shape.heads, shape.width)));
        }
        Ok(shape)
    }

    fn flag(&self, key: &str) -> bool {
        matches!(self.gguf.get(key), Some(Value::Bool(true)))
    }

    fn number(&self, suffix: &str, range: std::ops::RangeInclusive<u64>) -> Result<u32> {
        let key = format!("clip.vision.{suffix}");
        match self.gguf.get(&key).and_then(Value::as_u64) {
            Some(number) if range.contains(&number) => Ok(number as u32),
            Some(number) => {
                Err(Error::invalid(format_args!("{key} must be {} to {}, it is {number}", range.start(), range.end())))
            }
            None => Err(Error::invalid(format_args!("{key} is missing"))),
        }
    }

    fn floats(&self, key: &str, count: usize, range: std::ops::RangeInclusive<f64>) -> Result<()> {
        let is_sound = match self.gguf.get(key) {
            Some(Value::Array(array)) => {
                array.kind() == ValueType::F32
                    && array.len() == count
                    && array.iter().all(|value| matches!(value, Value::Float(float) if range.contains(&float)))
            }
            _ => false,
        };
        if is_sound {
            return Ok(());
        }
        Err(Error::invalid(format_args!(
            "{key} must hold {count} 32-bit floats from {:e} to {:e}",
            range.start(),
            range.end()
        )))
    }

    fn tensors(&self, shape: &TowerShape) -> Result<()> {
        let mut left: std::collections::HashMap<&str, &TensorInfo> =
            self.gguf.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
        for (name, dimensions, kind) in expected_tensors(shape) {
            let tensor = left
                .remove(name.as_str())
                .ok_or_else(|| Error::invalid(format_args!("the tensor {name} is missing")))?;
            let fits = tensor.shape.iter().zip(dimensions).all(|(&found, wanted)| wanted.is_none_or(|w| w == found));
            if !fits {
                let wanted = dimensions.map(|wanted| wanted.map_or("any".to_owned(), |wanted| wanted.to_string()));
                return Err(Error::invalid(format_args!(
                    "the tensor {name} has the shape {:?}, [{}] is expected",
                    tensor.shape,
                    wanted.join(", ")
                )));
            }
            let computes = match kind {
                Kind::Plain => tensor.kind == TensorType::F32,
                Kind::Convolution => tensor.kind == TensorType::F32 || tensor.kind == TensorType::F16,
                Kind::Matrix => tensor.kind.is_weight(),
            };
            if !computes {
                return Err(Error::unsupported(format_args!("the tensor {name} has the type {:?}", tensor.kind)));
            }
        }
        // Optional parts of other towers would be computed with, if they are there.
        if let Some(name) = left.keys().min() {
            return Err(Error::unsupported(format_args!("the tensor {name} is none of a Clef model's projector")));
        }
        let positions = self.gguf.tensor("v.position_embd.weight").map_or(0, |tensor| tensor.shape[1]);
        // They are a square, which is stretched over the picture.
        if positions.isqrt().pow(2) != positions || positions > 1 << 20 {
            return Err(Error::invalid(format_args!("v.position_embd.weight has {positions} rows, not a square")));
        }
        Ok(())
    }
}

/// What a tensor is used for, which decides the types it may have.
enum Kind {
    /// Added or multiplied element by element.
    Plain,
    /// A convolution's kernel.
    Convolution,
    /// The left side of a matrix product.
    Matrix,
}

fn expected_tensors(shape: &TowerShape) -> Vec<(String, [Option<u64>; 4], Kind)> {
    let [width, inner, patch, embedding] =
        [shape.width, shape.feed_forward, shape.patch, shape.embedding].map(u64::from);
    let merged = width * u64::from(shape.merge).pow(2);
    let mut all = Vec::new();
    let mut layer = |name: &str, from: u64, to: u64| {
        all.push((format!("{name}.weight"), [Some(from), Some(to), Some(1), Some(1)], Kind::Matrix));
        all.push((format!("{name}.bias"), [Some(to), Some(1), Some(1), Some(1)], Kind::Plain));
    };
    for block in 0..shape.layers {
        layer(&format!("v.blk.{block}.attn_qkv"), width, 3 * width);
        layer(&format!("v.blk.{block}.attn_out"), width, width);
        layer(&format!("v.blk.{block}.ffn_up"), width, inner);
        layer(&format!("v.blk.{block}.ffn_down"), inner, width);
    }
    layer("mm.0", merged, merged);
    layer("mm.2", merged, embedding);
    let mut vector = |name: String| all.push((name, [Some(width), Some(1), Some(1), Some(1)], Kind::Plain));
    for part in ["weight", "bias"] {
        for block in 0..shape.layers {
            vector(format!("v.blk.{block}.ln1.{part}"));
            vector(format!("v.blk.{block}.ln2.{part}"));
        }
        vector(format!("v.post_ln.{part}"));
    }
    vector("v.patch_embd.bias".to_owned());
    let kernel = [Some(patch), Some(patch), Some(3), Some(width)];
    all.push(("v.patch_embd.weight".to_owned(), kernel, Kind::Convolution));
    all.push(("v.patch_embd.weight.1".to_owned(), kernel, Kind::Convolution));
    all.push(("v.position_embd.weight".to_owned(), [Some(width), None, Some(1), Some(1)], Kind::Plain));
    all
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}
