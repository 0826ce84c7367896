//! `clef inspect`: what a file is, and what it would take to serve it.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use clef_api::{Inspection, MemoryItem};
use clef_server::{FileFlags, plain, size};
use serde_json::{Value, json};

use crate::failure::{Failure, print};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The GGUF file
    file: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    model: FileFlags,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let inspection = clef_api::inspect(&arguments.file, &arguments.model.0.options().model)?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&as_json(&inspection)).expect("plain values serialize");
        return print(&(text + "\n"));
    }
    print(&as_text(&inspection))
}

fn as_json(i: &Inspection) -> Value {
    json!({
        "path": i.path.display().to_string(),
        "file_bytes": i.file_bytes,
        "architecture": i.architecture,
        "name": i.name,
        "size_label": i.size_label,
        "quantization": i.quantization,
        "parameters": i.parameters,
        "tensors": i.tensors,
        "types": i.types.iter()
            .map(|t| json!({"type": t.name, "tensors": t.tensors, "bytes": t.bytes})).collect::<Vec<_>>(),
        "backbone": i.backbone.as_ref().map(|b| json!({
            "layers": b.layers,
            "attention_layers": b.attention_layers(),
            "width": b.width,
            "feed_forward": b.feed_forward,
            "heads": b.heads,
            "kv_heads": b.kv_heads,
            "head_width": b.head_width,
            "trained_context": b.trained_context,
            "rope_base": b.rope_base,
        })),
        "head": i.head.as_ref().map(|h| json!({
            "path": h.path.display().to_string(),
            "width": h.layout.width,
            "feed_forward": h.layout.feed_forward,
            "heads": h.layout.heads,
            "routing_blocks": h.layout.routing_blocks,
            "joint_blocks": h.layout.joint_blocks,
            "bytes": h.bytes,
            "lexical_table": h.lexical_table,
            "temperatures": !h.layout.temperatures.is_empty(),
        })),
        "projector": i.projector.as_ref().map(|p| json!({
            "layers": p.shape.layers,
            "width": p.shape.width,
            "feed_forward": p.shape.feed_forward,
            "heads": p.shape.heads,
            "token_side": p.shape.token_side(),
            "embedding": p.shape.embedding,
            "bytes": p.bytes,
        })),
        "tokenizer": {"model": i.tokenizer.0, "pre": i.tokenizer.1, "tokens": i.vocabulary},
        "missing": i.missing,
        "memory": i.memory.as_ref().map(|m| json!({
            "total_bytes": m.total(),
            "items": memory_items(&m.items),
            "later": memory_items(&m.later),
        })),
    })
}

fn memory_items(items: &[MemoryItem]) -> Vec<Value> {
    items.iter().map(|item| json!({"name": item.name, "bytes": item.bytes, "basis": item.basis})).collect()
}

fn as_text(i: &Inspection) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<14}{}", plain(&value));
    };
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    line("file", format!("{} ({})", i.path.display(), size(i.file_bytes)));
    line("architecture", i.architecture.clone());
    line("name", format!("{} ({})", or_dash(&i.name), or_dash(&i.size_label)));
    line("quantization", i.quantization.clone());
    line("parameters", format!("{:.2} M in {} tensors", i.parameters as f64 / 1e6, i.tensors));
    for share in &i.types {
        line("", format!("{:<6} {:>4} tensors {:>10}", share.name, share.tensors, size(share.bytes)));
    }
    if let Some(b) = &i.backbone {
        let layers = format!("{} layers ({} with full attention)", b.layers, b.attention_layers());
        line("backbone", format!("{layers}, width {}, feed-forward {}", b.width, b.feed_forward));
        line("", format!("{} heads on {} of width {}", b.heads, b.kv_heads, b.head_width));
        line("context", format!("{} tokens in training", b.trained_context));
    }
    if let Some(h) = &i.head {
        let l = &h.layout;
        let blocks = format!("{} routing and {} joint blocks", l.routing_blocks, l.joint_blocks);
        line("head", format!("{blocks}, width {}, feed-forward {}, {} heads", l.width, l.feed_forward, l.heads));
        match i.is_head() {
            true => line("", format!("{}, for backbones of width {}", size(h.bytes), l.hidden_width)),
            false => line("", format!("{}, option tokens from {}", size(h.bytes), h.lexical_table)),
        }
        if h.path != i.path {
            line("", format!("from {}", h.path.display()));
        }
        if !l.temperatures.is_empty() {
            line("", "with temperatures".to_owned());
        }
    }
    if let Some(p) = &i.projector {
        let s = &p.shape;
        let tower =
            format!("{} layers, width {}, feed-forward {}, {} heads", s.layers, s.width, s.feed_forward, s.heads);
        line("projector", tower);
        let tokens = format!("a token for {0}x{0} pixels", s.token_side());
        line("", format!("{}, {tokens}, for backbones of width {}", size(p.bytes), s.embedding));
    }
    if i.is_projector() {
        return described_part(out, i, "can see: give it beside its model, -m MODEL --mmproj THIS");
    }
    if i.is_head() {
        return described_part(out, i, "can decide with a backbone: -m BACKBONE --head THIS");
    }
    line("tokenizer", format!("{} ({}), {} tokens", i.tokenizer.0, i.tokenizer.1, i.vocabulary));
    if let Some(memory) = &i.memory {
        line("memory", format!("{} in all", size(memory.total())));
        for item in &memory.items {
            line("", format!("{:<18}{:>10}  {}", item.name, size(item.bytes), item.basis));
        }
        line("", "and as requests come:".to_owned());
        for item in &memory.later {
            line("", format!("{:<18}{:>10}  {}", item.name, size(item.bytes), item.basis));
        }
    }
    match i.missing.as_slice() {
        [] => line("", "can decide".to_owned()),
        missing => missing.iter().for_each(|what| line("missing", what.clone())),
    }
    out
}

/// The end of the description of what is no model by itself.
fn described_part(mut out: String, i: &Inspection, use_of_it: &str) -> String {
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{name:<14}{}", plain(value));
    };
    match i.missing.as_slice() {
        [] => line("", use_of_it),
        missing => missing.iter().for_each(|what| line("missing", what)),
    }
    out
}
