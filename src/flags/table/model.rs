//! Flags about the model: the ones that `clef` has, too.

use clef_api::{CacheType, FlashAttention, Repack};

use crate::flags::flag::Flag;
use crate::flags::values::{number, on_off, put};

/// Which model, in the order of help.
pub(super) const NAMING: &[Flag] = &[
    Flag::value(&["--model", "-m"], "FILE", "GGUF file of the model [default: the built-in toy model]", |s, v| {
        put(&mut s.model.model, Ok(Some(v.into())))
    })
    .env("LLAMA_ARG_MODEL"),
    Flag::value(&["--alias", "-a"], "NAME", "Name of the model in replies [default: the file's path]", |s, v| {
        put(&mut s.model.alias, alias(v))
    })
    .env("LLAMA_ARG_ALIAS"),
];

/// How it is opened, in the order of help.
pub(super) const FLAGS: &[Flag] = &[
    Flag::value(
        &["--head"],
        "FILE",
        "Head for a backbone without one: safetensors (its _config.json beside it) or GGUF [default: the model's own]",
        |s, v| put(&mut s.model.head, Ok(Some(v.into()))),
    )
    .env("CLEF_ARG_HEAD"),
    Flag::value(
        &["--mmproj", "-mm"],
        "FILE",
        "GGUF file of the projector, through which images and videos are seen [default: text only]",
        |s, v| put(&mut s.model.projector, Ok(Some(v.into()))),
    )
    .env("LLAMA_ARG_MMPROJ"),
    Flag::switch(&["--mmproj-auto"], "Load the projector; --no-mmproj serves text only, whatever --mmproj says", |s, v| {
        put(&mut s.model.sees, on_off(v))
    })
    .off(&["--no-mmproj", "--no-mmproj-auto"])
    .env("LLAMA_ARG_MMPROJ_AUTO"),
    Flag::switch(&["--mmproj-offload"], "Place the projector on the GPU, or not [default: on, where there is one]", |s, v| {
        put(&mut s.model.projector_offload, on_off(v))
    })
    .off(&["--no-mmproj-offload"])
    .env("LLAMA_ARG_MMPROJ_OFFLOAD"),
    Flag::value(
        &["--image-min-tokens"],
        "N",
        "Fewest tokens of an image; smaller ones are enlarged [default: the reference's 64]",
        |s, v| put(&mut s.model.image_min_tokens, image_tokens(v)),
    )
    .env("LLAMA_ARG_IMAGE_MIN_TOKENS"),
    Flag::value(
        &["--image-max-tokens"],
        "N",
        "Most tokens of an image; larger ones are reduced [default: the reference's 16384]",
        |s, v| put(&mut s.model.image_max_tokens, image_tokens(v)),
    )
    .env("LLAMA_ARG_IMAGE_MAX_TOKENS"),
    Flag::value(
        &["--ctx-size", "-c"],
        "N",
        "Most tokens of a prompt; 0 = what the model was trained with [default: 16384]",
        |s, v| put(&mut s.model.ctx_size, number(v, 0..=1 << 26)),
    )
    .env("LLAMA_ARG_CTX_SIZE"),
    Flag::value(
        &["--batch-size", "-b"],
        "N",
        "Upper limit on --ubatch-size, for compatibility [default: 2048]",
        |s, v| put(&mut s.model.batch_size, number(v, 1..=u32::MAX)),
    )
    .env("LLAMA_ARG_BATCH"),
    Flag::value(
        &["--ubatch-size", "-ub"],
        "N",
        "Tokens computed at once; larger ones need more memory [default: 256 on a CPU, else 512]",
        |s, v| put(&mut s.model.ubatch_size, number(v, 1..=65_536).map(Some)),
    )
    .env("LLAMA_ARG_UBATCH"),
    Flag::value(
        &["--parallel", "-np"],
        "N",
        "Requests read at once: short ones beside a long one; never divides the context; -1 = 2 [default: -1]",
        |s, v| put(&mut s.model.parallel, parallel(v)),
    )
    .env("LLAMA_ARG_N_PARALLEL"),
    Flag::value(
        &["--cache-ram", "-cram"],
        "N",
        "MiB for states that were read, so that they are read once; -1 = no limit, 0 = none [default: 1/8 of RAM, at most 2048]",
        |s, v| put(&mut s.model.cache_bytes, cache_bytes(v)),
    )
    .env("LLAMA_ARG_CACHE_RAM"),
    Flag::value(
        &["--threads", "-t"],
        "N",
        "CPU threads; -1 = one per CPU or per core, whichever reads faster, measured once [default: -1]",
        |s, v| put(&mut s.model.threads, threads(v)),
    )
    .env("LLAMA_ARG_THREADS"),
    Flag::value(
        &["--threads-batch", "-tb"],
        "N",
        "CPU threads for prompts; prompts are all there is, so it goes before --threads [default: as --threads]",
        |s, v| put(&mut s.model.threads_batch, threads(v)),
    ),
    Flag::value(
        &["--gpu-layers", "-ngl", "--n-gpu-layers"],
        "N",
        "Layers on the GPU: a number, auto or all [default: auto]",
        |s, v| put(&mut s.model.gpu_layers, gpu_layers(v)),
    )
    .env("LLAMA_ARG_N_GPU_LAYERS"),
    Flag::when(
        &["--flash-attn", "-fa"],
        "Fused attention: on, off or auto; off gives the reference's numbers to 1e-5 [default: auto]",
        |s, v| put(&mut s.model.flash_attention, flash_attention(v)),
    )
    .env("LLAMA_ARG_FLASH_ATTN"),
    Flag::value(
        &["--cache-type-k", "-ctk"],
        "TYPE",
        "Element type of cached keys [default: f16; f32 with --flash-attn off]",
        |s, v| put(&mut s.model.cache_keys, cache_type(v)),
    )
    .env("LLAMA_ARG_CACHE_TYPE_K"),
    Flag::value(
        &["--cache-type-v", "-ctv"],
        "TYPE",
        "Element type of cached values [default: f16; f32 with --flash-attn off]",
        |s, v| put(&mut s.model.cache_values, cache_type(v)),
    )
    .env("LLAMA_ARG_CACHE_TYPE_V"),
    Flag::switch(
        &["--repack"],
        "Rewrite weights into other layouts while loading, or not [default: what reads faster, measured once]",
        |s, v| put(&mut s.model.repack, repack(v)),
    )
    .off(&["--no-repack", "-nr"])
    .env("LLAMA_ARG_REPACK"),
    Flag::switch(&["--check-tensors"], "Check the values of the weights while loading", |s, v| {
        put(&mut s.model.check_tensors, on_off(v))
    }),
    Flag::switch(
        &["--neutral-ids"],
        "Name questions q1, q2, ... in the prompt, so that renaming one cannot move an answer",
        |s, v| put(&mut s.model.neutral_ids, on_off(v)),
    )
    .env("CLEF_ARG_NEUTRAL_IDS"),
];

/// llama-server takes several names; the first one is the one that replies show.
fn alias(text: &str) -> Result<Option<String>, String> {
    match crate::flags::values::list(text).next() {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err("expected a name".to_owned()),
    }
}

fn parallel(text: &str) -> Result<Option<u32>, String> {
    let count = crate::flags::values::integer(text, -1..=512)?;
    if count == 0 {
        return Err("expected -1 or a number from 1 to 512".to_owned());
    }
    Ok(u32::try_from(count).ok())
}

fn cache_bytes(text: &str) -> Result<Option<u64>, String> {
    let mebibytes = crate::flags::values::integer(text, -1..=1 << 30)?;
    Ok(Some(u64::try_from(mebibytes).map_or(u64::MAX, |mebibytes| mebibytes << 20)))
}

/// Zero stands for the default, as llama-server reads it from the projector.
fn image_tokens(text: &str) -> Result<Option<u32>, String> {
    let count = number(text, 0..=1 << 20)?;
    Ok((count > 0).then_some(count))
}

/// Zero and less stand for "decide yourself".
fn threads(text: &str) -> Result<Option<u32>, String> {
    let count = crate::flags::values::integer(text, i64::from(i32::MIN)..=512)
        .map_err(|_| "expected -1 or a number from 1 to 512".to_owned())?;
    Ok(u32::try_from(count).ok().filter(|&count| count > 0))
}

fn repack(text: &str) -> Result<Repack, String> {
    on_off(text).map(|on| if on { Repack::On } else { Repack::Off })
}

fn gpu_layers(text: &str) -> Result<i32, String> {
    match text {
        "auto" | "all" => Ok(-1),
        number => number.parse().map_err(|_| "expected a number, auto or all".to_owned()),
    }
}

fn flash_attention(text: &str) -> Result<FlashAttention, String> {
    match text {
        "auto" | "-1" => Ok(FlashAttention::Auto),
        other => match on_off(other) {
            Ok(true) => Ok(FlashAttention::On),
            Ok(false) => Ok(FlashAttention::Off),
            Err(_) => Err("expected on, off or auto".to_owned()),
        },
    }
}

fn cache_type(text: &str) -> Result<Option<CacheType>, String> {
    let known = CacheType::NAMES.iter().find(|(name, _)| *name == text);
    known.map(|&(_, kind)| Some(kind)).ok_or_else(|| {
        let names: Vec<&str> = CacheType::NAMES.iter().map(|(name, _)| *name).collect();
        format!("expected one of {}", names.join(", "))
    })
}
