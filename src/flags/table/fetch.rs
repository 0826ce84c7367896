//! Flags about models that are elsewhere: `clef` has them, too.

use crate::flags::flag::Flag;
use crate::flags::values::{on_off, put};

/// In the order of help.
pub(super) const FLAGS: &[Flag] = &[
    Flag::value(
        &["--hf-repo", "-hf", "-hfr"],
        "USER/MODEL[:QUANT]",
        "Model of the Hugging Face hub, with its projector if there is one; downloaded once [default quant: Q4_K_M]",
        |s, v| put(&mut s.model.fetch.repository, Ok(Some(v.to_owned()))),
    )
    .env("LLAMA_ARG_HF_REPO"),
    Flag::value(&["--hf-file", "-hff"], "FILE", "This file of --hf-repo, whatever its quant", |s, v| {
        put(&mut s.model.fetch.file, Ok(Some(v.to_owned())))
    })
    .env("LLAMA_ARG_HF_FILE"),
    Flag::value(
        &["--hf-token", "-hft"],
        "TOKEN",
        "Token for gated models [default: what `hf auth login` left]",
        |s, v| put(&mut s.model.fetch.token, Ok(Some(v.to_owned()))),
    )
    .env_read_elsewhere("HF_TOKEN"),
    Flag::value(&["--model-url", "-mu"], "URL", "Model to download, once", |s, v| {
        put(&mut s.model.fetch.url, Ok(Some(v.to_owned())))
    })
    .env("LLAMA_ARG_MODEL_URL"),
    Flag::value(&["--mmproj-url", "-mmu"], "URL", "Projector to download, once", |s, v| {
        put(&mut s.model.fetch.projector_url, Ok(Some(v.to_owned())))
    })
    .env("LLAMA_ARG_MMPROJ_URL"),
    Flag::switch(&["--offline"], "Ask nobody: only what was downloaded before", |s, v| {
        put(&mut s.model.fetch.offline, on_off(v))
    })
    .env("LLAMA_ARG_OFFLINE"),
];
