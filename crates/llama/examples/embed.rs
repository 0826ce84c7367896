//! What a vision tower makes of pictures: `embed MODEL PROJECTOR on|off SIDES FRAME [FRAME]` reads raw RGB frames of
//! `SIDES` (`320x224`) and writes a token's row after the other as 32-bit floats to standard output.
//!
//! On the CPU, with one thread; `on` and `off` are flash attention. `scripts/vision_difference.py` compares the rows.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;

use clef_llama::gguf::Gguf;
use clef_llama::{Device, FlashAttention, Model, ModelParams, Projector, Vision, VisionParams};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, projector, attention, sides, frames @ ..] = arguments.as_slice() else {
        return Err("usage: embed MODEL PROJECTOR on|off WIDTHxHEIGHT FRAME [FRAME]".into());
    };
    let flash_attention = match attention.as_str() {
        "on" => FlashAttention::On,
        "off" => FlashAttention::Off,
        other => return Err(format!("flash attention is on or off, not {other}").into()),
    };
    let (width, height) = sides.split_once('x').ok_or("sides are given as WIDTHxHEIGHT")?;
    let frames = frames.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();

    let params = ModelParams { gpu_layers: 0, ..ModelParams::default() };
    let model = Model::load(&Gguf::open(Path::new(model))?, &params, &mut |_, _| true)?;
    let gguf = Gguf::open(Path::new(projector))?;
    let params = VisionParams { device: Device::cpu(), threads: 1, flash_attention };
    let mut vision = Vision::load(&Projector::new(&gguf)?, &model, &params)?;
    let rows = vision.encode(&frames, width.parse()?, height.parse()?)?;
    let bytes: Vec<u8> = rows.iter().flat_map(|value| value.to_le_bytes()).collect();
    std::io::stdout().write_all(&bytes)?;
    Ok(())
}
