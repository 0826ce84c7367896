//! Flags about models that are elsewhere: `clef` has them, too.

use clef_hub::{ModelRequest, Token};

use crate::flags::flag::Flag;
use crate::flags::values::{on_off, put};

/// In the order of help.
pub(super) const FLAGS: &[Flag] = &[
    Flag::value(
        &["--hf-repo", "-hf", "-hfr"],
        "USER/MODEL[:QUANT]",
        "Model of the Hugging Face hub, with its projector if there is one; downloaded once [default quant: Q4_K_M, or what is nearest to it]",
        |s, v| put(&mut s.model.fetch.repository, repository(v)),
    )
    .env("LLAMA_ARG_HF_REPO"),
    Flag::value(&["--hf-file", "-hff"], "FILE", "This file of --hf-repo, whatever its quant", |s, v| {
        put(&mut s.model.fetch.file, file(v))
    })
    .env("LLAMA_ARG_HF_FILE"),
    Flag::value(
        &["--hf-token", "-hft"],
        "TOKEN",
        "Token for gated models [default: what `hf auth login` left]",
        |s, v| put(&mut s.model.fetch.token, sound(v, Token::new(v))),
    )
    .env_read_elsewhere("HF_TOKEN"),
    Flag::value(&["--model-url", "-mu"], "URL", "Model to download, once", |s, v| put(&mut s.model.fetch.url, url(v)))
        .env("LLAMA_ARG_MODEL_URL"),
    Flag::value(&["--mmproj-url", "-mmu"], "URL", "Projector to download, once", |s, v| {
        put(&mut s.model.fetch.projector_url, url(v))
    })
    .env("LLAMA_ARG_MMPROJ_URL"),
    Flag::switch(&["--offline"], "Ask nobody: only what was downloaded before", |s, v| {
        put(&mut s.model.fetch.offline, on_off(v))
    })
    .env("LLAMA_ARG_OFFLINE"),
];

/// The text, if the hub's library takes it. Downloading begins later, when a server's port is open already.
fn sound<T>(text: &str, parsed: clef_hub::Result<T>) -> Result<Option<String>, String> {
    parsed.map(|_| Some(text.to_owned())).map_err(|error| error.to_string())
}

/// The address of a repository's page is read by whoever knows which hub is meant.
fn repository(text: &str) -> Result<Option<String>, String> {
    if text.contains("://") { url(text) } else { sound(text, ModelRequest::parse(text)) }
}

fn file(text: &str) -> Result<Option<String>, String> {
    let any = ModelRequest::parse("user/model").expect("a repository's name");
    sound(text, any.with_file(text))
}

fn url(text: &str) -> Result<Option<String>, String> {
    match ["http://", "https://"].iter().any(|scheme| text.len() > scheme.len() && text.starts_with(scheme)) {
        true => Ok(Some(text.to_owned())),
        false => Err("expected a URL, http:// or https://".to_owned()),
    }
}
