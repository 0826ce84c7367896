//! Flags about where a model is put: devices, memory, processors. `clef` has them, too.

use clef_api::{LoadMode, Numa, Override, SplitMode, find_gpu};

use crate::flags::Settings;
use crate::flags::flag::{Flag, Problem};
use crate::flags::values::{list, number, on_off, put};

/// In the order of help.
pub(super) const FLAGS: &[Flag] = &[
    Flag::value(
        &["--device", "-dev"],
        "DEVICES",
        "Devices for layers, by name or by place in clef-server --list-devices, from 0; none = CPU only [default: all]",
        |s, v| put(&mut s.model.placement.devices, devices(v).map(Some)),
    )
    .env("LLAMA_ARG_DEVICE"),
    Flag::value(
        &["--split-mode", "-sm"],
        "MODE",
        "How a model is split among GPUs: none, layer, row or tensor [default: layer]",
        |s, v| put(&mut s.model.placement.split_mode, named(v, &SPLIT_MODES)),
    )
    .env("LLAMA_ARG_SPLIT_MODE"),
    Flag::value(
        &["--tensor-split", "-ts"],
        "N0,N1,...",
        "Shares of several GPUs, as 3,1 [default: by their free memory]",
        |s, v| put(&mut s.model.placement.tensor_split, shares(v)),
    )
    .env("LLAMA_ARG_TENSOR_SPLIT"),
    Flag::value(&["--main-gpu", "-mg"], "N", "GPU of --split-mode none, from 0 [default: 0]", |s, v| {
        put(&mut s.model.placement.main_gpu, number(v, 0..=255))
    })
    .env("LLAMA_ARG_MAIN_GPU"),
    Flag::when(
        &["--fit", "-fit"],
        "Refuse a model that needs more memory than is available, before it is loaded: on or off [default: on]",
        |s, v| put(&mut s.model.must_fit, on_off(v)),
    )
    .env("LLAMA_ARG_FIT"),
    Flag::value(
        &["--load-mode", "-lm"],
        "MODE",
        "auto, none, mmap, mlock, mmap+mlock or dio; mlock keeps weights in memory; they are read, never mapped [default: auto]",
        |s, v| put(&mut s.model.placement.load_mode, named(v, &LoadMode::NAMES)),
    )
    .env("LLAMA_ARG_LOAD_MODE"),
    Flag::switch(&["--mlock"], "Older spelling of --load-mode mlock", |s, v| {
        load_mode_if(s, on_off(v)?.then_some(LoadMode::Mlock))
    })
    .env("LLAMA_ARG_MLOCK"),
    Flag::switch(&["--mmap"], "Older spelling of --load-mode mmap; --no-mmap of none", |s, v| {
        load_mode_if(s, Some(if on_off(v)? { LoadMode::Mmap } else { LoadMode::None }))
    })
    .off(&["--no-mmap"])
    .env("LLAMA_ARG_MMAP"),
    Flag::value(
        &["--numa"],
        "TYPE",
        "How threads are spread over memory nodes: distribute, isolate or numactl [default: not at all]",
        |s, v| put(&mut s.model.placement.numa, named(v, &NUMA).map(Some)),
    )
    .env("LLAMA_ARG_NUMA"),
    Flag::value(
        &["--override-kv"],
        "KEY=TYPE:VALUE",
        "Metadata in place of the file's, several separated by commas; types: int, float, bool, str",
        overrides,
    )
    .adding_up(),
];

const SPLIT_MODES: [(&str, SplitMode); 4] =
    [("none", SplitMode::None), ("layer", SplitMode::Layer), ("row", SplitMode::Row), ("tensor", SplitMode::Tensor)];

const NUMA: [(&str, Numa); 3] =
    [("distribute", Numa::Distribute), ("isolate", Numa::Isolate), ("numactl", Numa::Numactl)];

fn named<T: Copy>(text: &str, names: &[(&str, T)]) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn load_mode_if(settings: &mut Settings, mode: Option<LoadMode>) -> Result<(), Problem> {
    if let Some(mode) = mode {
        settings.model.placement.load_mode = mode;
    }
    Ok(())
}

fn devices(text: &str) -> Result<Vec<String>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let names: Vec<String> = list(text).map(str::to_owned).collect();
    match names.iter().find(|name| find_gpu(name).is_none()) {
        None if !names.is_empty() => Ok(names),
        None => Err("expected none or devices of clef-server --list-devices".to_owned()),
        Some(name) => {
            Err(format!("no device {name:?} for layers; expected none or devices of clef-server --list-devices"))
        }
    }
}

fn shares(text: &str) -> Result<Vec<f32>, String> {
    let read = |share: &str| share.trim().parse().ok().filter(|share: &f32| share.is_finite() && *share >= 0.0);
    let shares: Option<Vec<f32>> = text.split([',', '/']).map(read).collect();
    shares
        .filter(|shares| shares.iter().any(|&share| share > 0.0))
        .ok_or_else(|| "expected numbers from 0 on, separated by commas, and one of them more than 0".to_owned())
}

/// Several flags add up.
fn overrides(settings: &mut Settings, text: &str) -> Result<(), Problem> {
    for next in Override::parse_list(text)? {
        if settings.model.overrides.iter().any(|known| known.key() == next.key()) {
            return Err(format!("{} is there twice", next.key()).into());
        }
        settings.model.overrides.push(next);
    }
    Ok(())
}
