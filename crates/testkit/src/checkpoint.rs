//! A head as a checkpoint ships it, made from the head in a GGUF file of 32-bit floats.
//!
//! The inverse of what converters do, written for itself: a mistake in the product's own mapping cannot hide in a shared
//! one.

use std::collections::BTreeMap;
use std::path::Path;

use clef_llama::gguf::{Gguf, Value};

/// Tensors by name: shape (slowest dimension first) and data.
type Tensors = BTreeMap<String, (Vec<u64>, Vec<u8>)>;

/// Writes the head of `model` to `path`, a safetensors file, and its numbers to `joint_head_config.json` beside it. With
/// `halved`, numbers are cut to 16 bits (`BF16`), as checkpoints of large models have them.
///
/// # Panics
/// If `model` holds no head of 32-bit floats, or the files cannot be written.
pub fn write_checkpoint(model: &Gguf, path: &Path, halved: bool) {
    let number = |key: &str| model.get(key).and_then(Value::as_u64).expect("the model holds a head");
    let routing = number("clef.decision.routing_block_count");
    let tensor = |name: &str| model.tensor(name).expect("the model holds a head");
    let mut tensors = Tensors::new();
    for name in model.tensors().iter().map(|tensor| tensor.name.as_str()) {
        if let Some(theirs) = name_there(name, routing) {
            let info = tensor(name);
            let shape = info.shape[..info.dimensions].iter().rev().copied().collect();
            append(&mut tensors, theirs, shape, model.data(info));
        }
    }
    let scales = model.data(tensor("decision.scales"));
    let scale = |index: usize| {
        let bytes = &scales[4 * index..4 * index + 4];
        f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    for (name, raw) in [
        ("prior_logit_scale", scale(0).ln()),
        ("joint_logit_scale", scale(1).ln()),
        ("residual_gate", (scale(2) / (1.0 - scale(2))).ln()),
    ] {
        tensors.insert(name.to_owned(), (Vec::new(), (raw as f32).to_le_bytes().to_vec()));
    }
    std::fs::write(path, safetensors(&tensors, halved)).expect("the folder can be written");
    let memory = tensor("decision.proj_memory.weight");
    let config = format!(
        r#"{{"hidden_size":{},"width":{},"routing_layers":{routing},"layers":{},"heads":{},"feedforward":{},"dropout":0.0}}"#,
        memory.shape[0],
        memory.shape[1],
        number("clef.decision.block_count"),
        number("clef.decision.head_count"),
        tensor("dec.blk.0.ffn_up.weight").shape[1],
    );
    std::fs::write(path.with_file_name("joint_head_config.json"), config).expect("the folder can be written");
}

/// Adds a tensor, or the next part of one: queries, keys and values come in this order in GGUF files, as they do there.
fn append(tensors: &mut Tensors, name: String, shape: Vec<u64>, data: &[u8]) {
    match tensors.entry(name) {
        std::collections::btree_map::Entry::Vacant(place) => {
            place.insert((shape, data.to_vec()));
        }
        std::collections::btree_map::Entry::Occupied(mut place) => {
            let (whole, bytes) = place.get_mut();
            whole[0] += shape[0];
            bytes.extend(data);
        }
    }
}

/// The checkpoint's name of a tensor of the head, or of the tensor that it is a part of.
fn name_there(name: &str, routing: u64) -> Option<String> {
    if name == "token_types.weight" {
        return Some("type_embedding.weight".to_owned());
    }
    let words: Vec<&str> = name.split('.').collect();
    let (home, module, kind) = match *words.as_slice() {
        ["decision", module, kind] => {
            let theirs = match module.strip_prefix("proj_") {
                Some(what) => format!("{what}_projection"),
                None => module.replace("scorer_out", "residual_scorer.3"),
            };
            let theirs = if module == "scorer" { "residual_scorer.0".to_owned() } else { theirs };
            return Some(format!("{theirs}.{kind}"));
        }
        ["dec", "blk", block, module, kind] => (block.parse::<u64>().ok()?, module, kind),
        _ => return None,
    };
    let theirs = match (module, home < routing) {
        ("cross_attn_q" | "cross_attn_k" | "cross_attn_v", true) => format!("attention.in_proj_{kind}"),
        ("cross_attn_q" | "cross_attn_k" | "cross_attn_v", false) => format!("multihead_attn.in_proj_{kind}"),
        ("attn_q" | "attn_k" | "attn_v", _) => format!("self_attn.in_proj_{kind}"),
        ("cross_attn_o", true) => format!("attention.out_proj.{kind}"),
        ("cross_attn_o", false) => format!("multihead_attn.out_proj.{kind}"),
        ("attn_o", _) => format!("self_attn.out_proj.{kind}"),
        ("ffn_up", true) => format!("feedforward.0.{kind}"),
        ("ffn_down", true) => format!("feedforward.3.{kind}"),
        ("ffn_norm", true) => format!("feedforward_norm.{kind}"),
        ("cross_attn_norm", true) => format!("query_norm.{kind}"),
        ("cross_attn_norm_kv", true) => format!("memory_norm.{kind}"),
        ("ffn_up", false) => format!("linear1.{kind}"),
        ("ffn_down", false) => format!("linear2.{kind}"),
        ("attn_norm", false) => format!("norm1.{kind}"),
        ("cross_attn_norm", false) => format!("norm2.{kind}"),
        ("ffn_norm", false) => format!("norm3.{kind}"),
        _ => return None,
    };
    Some(if home < routing {
        format!("evidence_layers.{home}.{theirs}")
    } else {
        format!("layers.{}.{theirs}", home - routing)
    })
}

fn safetensors(tensors: &Tensors, halved: bool) -> Vec<u8> {
    let kind = if halved { "BF16" } else { "F32" };
    let mut header = r#"{"__metadata__":{"format":"pt"}"#.to_owned();
    let mut data = Vec::new();
    for (name, (shape, bytes)) in tensors {
        let start = data.len();
        match halved {
            true => data.extend(bytes.chunks_exact(4).flat_map(|value| [value[2], value[3]])),
            false => data.extend(bytes),
        }
        let end = data.len();
        header += &format!(r#","{name}":{{"dtype":"{kind}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#);
    }
    header.push('}');
    header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}
