//! A head as its checkpoint ships it: `joint_head.safetensors`, with its numbers in `joint_head_config.json`.
//!
//! The names there are those of PyTorch's modules, the projections of an attention's queries, keys and values stand in
//! one tensor, and three scalars are as they were learned. What llama.cpp's converter makes of them is made here in
//! passing; every tensor comes out as in the GGUF file of the same checkpoint.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clef_llama::gguf::{TensorInfo, TensorType};
use serde::Deserialize;

use crate::error::{Error, ErrorKind, Result};
use crate::expected::expected_tensors;
use crate::layout::{Layout, MAX_BLOCKS, Temperatures, invalid};
use crate::safetensors::{Safetensors, Stored};

/// What [`Config`] holds, for people.
const FIELDS: &str = "hidden_size, width, routing_layers, layers, heads, feedforward";
const CONFIG: &str = "joint_head_config.json";
const MAX_CONFIG_BYTES: u64 = 1 << 16;
/// Wider ones are damage; the largest backbone that was released is 5,120 wide.
const MAX_WIDTH: u64 = 1 << 17;
/// PyTorch's default, which the reference leaves as it is.
const EPSILON: f32 = 1e-5;
/// The tensor of GGUF files that is made of three.
const SCALES: &str = "decision.scales";
/// The factors of the two cosines and the gate of the second one, in the order of [`SCALES`].
const SCALARS: [&str; 3] = ["prior_logit_scale", "joint_logit_scale", "residual_gate"];

/// The numbers that shape a head, as its checkpoint states them.
#[derive(Debug, Deserialize)]
struct Config {
    hidden_size: u64,
    width: u64,
    routing_layers: u64,
    layers: u64,
    heads: u64,
    feedforward: u64,
}

/// A checked head of a checkpoint.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    file: Safetensors,
    parts: Vec<Part>,
}

/// A tensor of the head and where it comes from.
#[derive(Debug)]
struct Part {
    tensor: TensorInfo,
    data: Data,
}

#[derive(Debug)]
enum Data {
    /// Bytes of the file, of the type that they are stored in.
    Stored { offset: u64, bytes: u64, kind: TensorType },
    /// [`SCALES`], ready to use.
    Scales([f32; 3]),
}

impl Checkpoint {
    pub(crate) fn open(path: &Path) -> Result<(Self, Layout)> {
        let file = Safetensors::open(path)?;
        let (config_path, config) = config(path)?;
        let layout = layout(&config, &config_path)?;
        let mut parts = Vec::new();
        let mut used: BTreeSet<String> = SCALARS.into_iter().map(str::to_owned).collect();
        for (name, shape, plain) in expected_tensors(&layout) {
            let data = if name == SCALES {
                Data::Scales(scales(&file)?)
            } else {
                let origin = origin(&name, layout.routing_blocks).expect("checkpoints have all tensors but the scales");
                let data = origin.find(&file, &shape)?;
                used.insert(origin.name);
                data
            };
            // llama.cpp's converter widens these, and its graph counts on it.
            let widened = plain || name == "token_types.weight";
            let kind = match data {
                Data::Stored { kind, .. } if !widened => kind,
                _ => TensorType::F32,
            };
            let mut full = [1; 4];
            shape.iter().zip(&mut full).for_each(|(&length, full)| *full = length as u64);
            let bytes = kind.block_bytes() * full.iter().product::<u64>();
            let tensor = TensorInfo { name, shape: full, dimensions: shape.len(), kind, offset: 0, bytes };
            parts.push(Part { tensor, data });
        }
        // What is not known may change the answer.
        if let Some(unknown) = file.names().find(|name| !used.contains(*name)) {
            let what = format_args!(
                "the tensor {unknown} belongs to no head of the shape that {} states",
                config_path.display()
            );
            return Err(invalid(path, what));
        }
        Ok((Self { file, parts }, layout))
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn tensors(&self) -> Vec<TensorInfo> {
        self.parts.iter().map(|part| part.tensor.clone()).collect()
    }

    /// The data of a tensor by its name in GGUF files.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(part) = self.parts.iter().find(|part| part.tensor.name == name) else { return Ok(None) };
        match part.data {
            Data::Scales(scales) => Ok(Some(scales.iter().flat_map(|scale| scale.to_le_bytes()).collect())),
            Data::Stored { offset, bytes, kind } => {
                let data = self.file.read(offset, bytes)?;
                if kind == part.tensor.kind {
                    return Ok(Some(data));
                }
                Ok(Some(widened(kind, &data)?.iter().flat_map(|value| value.to_le_bytes()).collect()))
            }
        }
    }
}

fn widened(kind: TensorType, data: &[u8]) -> Result<Vec<f32>> {
    let mut values = vec![0.0; data.len() / kind.block_bytes() as usize];
    kind.dequantize_row(data, &mut values)?;
    Ok(values)
}

/// Reads the configuration beside a file: `NAME_config.json` for `NAME.safetensors`, else the name that checkpoints use.
fn config(path: &Path) -> Result<(PathBuf, Config)> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let own = path.with_file_name(format!("{stem}_config.json"));
    let found = if own.exists() { own } else { path.with_file_name(CONFIG) };
    let cannot = |e: std::io::Error| {
        let shown = path.display();
        Error::new(ErrorKind::Io, format_args!("{shown}: {} must lie beside it: {e}", found.display()))
    };
    if !std::fs::metadata(&found).map_err(cannot)?.is_file() {
        return Err(invalid(&found, "not a file"));
    }
    let mut text = Vec::new();
    let file = std::fs::File::open(&found).map_err(cannot)?;
    file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut text).map_err(cannot)?;
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Err(invalid(&found, format_args!("larger than {MAX_CONFIG_BYTES} bytes")));
    }
    let config = serde_json::from_slice(&text)
        .map_err(|e| invalid(&found, format_args!("not the numbers of a head ({FIELDS}): {e}")))?;
    Ok((found, config))
}

fn layout(config: &Config, path: &Path) -> Result<Layout> {
    let number = |name: &str, value: u64, least: u64, most: u64| {
        if (least..=most).contains(&value) {
            return Ok(value as usize);
        }
        Err(invalid(path, format_args!("{name} must be a number from {least} to {most}, it is {value}")))
    };
    let layout = Layout {
        hidden_width: number("hidden_size", config.hidden_size, 1, MAX_WIDTH)?,
        width: number("width", config.width, 1, MAX_WIDTH)?,
        feed_forward: number("feedforward", config.feedforward, 1, MAX_WIDTH)?,
        heads: number("heads", config.heads, 1, 1 << 10)?,
        routing_blocks: number("routing_layers", config.routing_layers, 0, MAX_BLOCKS)?,
        joint_blocks: number("layers", config.layers, 0, MAX_BLOCKS)?,
        epsilon: EPSILON,
        temperatures: Temperatures::default(),
    };
    layout.checked(path)
}

/// A tensor of the checkpoint, or one of the equal parts of one.
#[derive(Debug, PartialEq, Eq)]
struct Origin {
    name: String,
    part: usize,
    parts: usize,
}

impl Origin {
    /// Where a tensor that has the shape `shape` in GGUF files is.
    fn find(&self, file: &Safetensors, shape: &[usize]) -> Result<Data> {
        // There the slowest dimension comes first, here the fastest.
        let mut there: Vec<u64> = shape.iter().rev().map(|&length| length as u64).collect();
        there[0] *= self.parts as u64;
        let &Stored { kind, offset, bytes, .. } = tensor(file, &self.name, &there)?;
        let bytes = bytes / self.parts as u64;
        Ok(Data::Stored { offset: offset + self.part as u64 * bytes, bytes, kind })
    }
}

fn tensor<'a>(file: &'a Safetensors, name: &str, shape: &[u64]) -> Result<&'a Stored> {
    let tensor = file.get(name).ok_or_else(|| {
        invalid(file.path(), format_args!("holds no whole decision head: the tensor {name} is missing"))
    })?;
    if tensor.shape != shape {
        let what = format_args!("the tensor {name} has the shape {:?}, {shape:?} is expected", tensor.shape);
        return Err(invalid(file.path(), what));
    }
    Ok(tensor)
}

/// The three scalars, ready to use.
fn scales(file: &Safetensors) -> Result<[f32; 3]> {
    let mut scales = [0.0; 3];
    for (index, (name, scale)) in SCALARS.into_iter().zip(&mut scales).enumerate() {
        let stored = tensor(file, name, &[])?;
        let learned = f64::from(widened(stored.kind, &file.read(stored.offset, stored.bytes)?)?[0]);
        let ready = if index == 2 { 1.0 / (1.0 + (-learned).exp()) } else { learned.min(100_f64.ln()).exp() };
        *scale = ready as f32;
    }
    Ok(scales)
}

/// What a tensor of a GGUF file is called in a checkpoint; none for [`SCALES`], and what is no head's.
fn origin(name: &str, routing_blocks: usize) -> Option<Origin> {
    let whole = |name: String| Some(Origin { name, part: 0, parts: 1 });
    if name == "token_types.weight" {
        return whole("type_embedding.weight".to_owned());
    }
    if let Some(name) = name.strip_prefix("decision.") {
        let (module, kind) = name.rsplit_once('.')?;
        let module = match module.strip_prefix("proj_") {
            Some(what) => format!("{what}_projection"),
            None if module == "scorer" => "residual_scorer.0".to_owned(),
            None if module == "scorer_out" => "residual_scorer.3".to_owned(),
            None => module.to_owned(),
        };
        return whole(format!("{module}.{kind}"));
    }
    let (block, name) = name.strip_prefix("dec.blk.")?.split_once('.')?;
    let (module, kind) = name.split_once('.')?;
    let block: usize = block.parse().ok()?;
    let routing = block < routing_blocks;
    let home = if routing { format!("evidence_layers.{block}") } else { format!("layers.{}", block - routing_blocks) };
    let attentions: &[(&str, &str)] = if routing {
        &[("cross_attn_", "attention")]
    } else {
        &[("cross_attn_", "multihead_attn"), ("attn_", "self_attn")]
    };
    for (prefix, attention) in attentions {
        match module.strip_prefix(prefix) {
            Some("o") => return whole(format!("{home}.{attention}.out_proj.{kind}")),
            Some(projection @ ("q" | "k" | "v")) => {
                let part = ["q", "k", "v"].into_iter().position(|known| known == projection)?;
                return Some(Origin { name: format!("{home}.{attention}.in_proj_{kind}"), part, parts: 3 });
            }
            _ => {}
        }
    }
    let names: &[(&str, &str)] = if routing {
        &[
            ("ffn_up", "feedforward.0"),
            ("ffn_down", "feedforward.3"),
            ("ffn_norm", "feedforward_norm"),
            ("cross_attn_norm", "query_norm"),
            ("cross_attn_norm_kv", "memory_norm"),
        ]
    } else {
        &[
            ("ffn_up", "linear1"),
            ("ffn_down", "linear2"),
            ("attn_norm", "norm1"),
            ("cross_attn_norm", "norm2"),
            ("ffn_norm", "norm3"),
        ]
    };
    let (_, theirs) = names.iter().find(|(ours, _)| *ours == module)?;
    whole(format!("{home}.{theirs}.{kind}"))
}
