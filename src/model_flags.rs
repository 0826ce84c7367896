//! Flags about the model, with llama-server's names, aliases and environment variables.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clef_api::{CacheType, FlashAttention, ModelOptions, Options};

/// How the model is opened.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelFlags {
    /// GGUF file of the model [default: the built-in toy model]
    #[arg(short, long, value_name = "FILE", env = "LLAMA_ARG_MODEL")]
    pub model: Option<PathBuf>,

    /// Name of the model in replies [default: the file's path]
    #[arg(short, long, value_name = "NAME", env = "LLAMA_ARG_ALIAS")]
    pub alias: Option<String>,

    /// Most tokens of a prompt; 0 = what the model was trained with
    #[arg(short, long, value_name = "N", default_value_t = 16_384, env = "LLAMA_ARG_CTX_SIZE",
          value_parser = clap::value_parser!(u32).range(0..=1 << 26))]
    pub ctx_size: u32,

    /// Upper limit on --ubatch-size, for compatibility [default: 2048]
    #[arg(short, long, value_name = "N", default_value_t = 2048, hide_default_value = true,
          env = "LLAMA_ARG_BATCH", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_size: u32,

    /// Tokens computed at once (-ub); larger ones need more memory
    #[arg(long, value_name = "N", default_value_t = 512, env = "LLAMA_ARG_UBATCH",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub ubatch_size: u32,

    /// CPU threads [default: all cores]
    #[arg(short, long, value_name = "N", env = "LLAMA_ARG_THREADS", allow_negative_numbers = true)]
    pub threads: Option<i32>,

    /// CPU threads for prompts (-tb); prompts are all there is, so it goes before --threads
    #[arg(long, value_name = "N", env = "LLAMA_ARG_THREADS_BATCH", allow_negative_numbers = true)]
    pub threads_batch: Option<i32>,

    /// Layers on the GPU (-ngl): a number, `auto` or `all`
    #[arg(long, alias = "n-gpu-layers", value_name = "N", default_value = "auto", env = "LLAMA_ARG_N_GPU_LAYERS",
          value_parser = gpu_layers, allow_negative_numbers = true)]
    pub gpu_layers: i32,

    /// Fused attention (-fa); `off` gives the reference's numbers to 1e-5
    #[arg(long, value_name = "WHEN", default_value = "auto", num_args = 0..=1, default_missing_value = "on",
          env = "LLAMA_ARG_FLASH_ATTN")]
    pub flash_attn: When,

    /// Element type of cached keys (-ctk) [default: f16; f32 with --flash-attn off]
    #[arg(long, value_name = "TYPE", env = "LLAMA_ARG_CACHE_TYPE_K", value_parser = cache_type)]
    pub cache_type_k: Option<CacheType>,

    /// Element type of cached values (-ctv) [default: f16; f32 with --flash-attn off]
    #[arg(long, value_name = "TYPE", env = "LLAMA_ARG_CACHE_TYPE_V", value_parser = cache_type)]
    pub cache_type_v: Option<CacheType>,

    /// Rewrite weights into layouts made for generating text
    #[arg(long, env = "LLAMA_ARG_REPACK", overrides_with = "no_repack")]
    pub repack: bool,

    /// Leave weights as they are (-nr); the default
    #[arg(long, hide = true)]
    pub no_repack: bool,

    /// Check the values of the weights while loading
    #[arg(long, env = "LLAMA_ARG_CHECK_TENSORS")]
    pub check_tensors: bool,

    /// Name questions q1, q2, ... in the prompt, so that renaming one cannot move an answer
    #[arg(long)]
    pub neutral_ids: bool,
}

/// On, off, or where supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum When {
    #[value(aliases = ["1", "true", "enabled"])]
    On,
    #[value(aliases = ["0", "false", "disabled"])]
    Off,
    #[value(alias = "-1")]
    Auto,
}

impl ModelFlags {
    /// The options that they stand for.
    pub fn options(&self) -> Options {
        let defaults = ModelOptions::default();
        // llama.cpp takes a negative number of threads for "decide yourself".
        let threads = self.threads_batch.or(self.threads).and_then(|count| u32::try_from(count).ok());
        let model = ModelOptions {
            context_tokens: self.ctx_size,
            chunk_tokens: self.ubatch_size.min(self.batch_size),
            threads: threads.filter(|&count| count > 0).unwrap_or(defaults.threads),
            gpu_layers: self.gpu_layers,
            flash_attention: match self.flash_attn {
                When::On => FlashAttention::On,
                When::Off => FlashAttention::Off,
                When::Auto => FlashAttention::Auto,
            },
            cache_keys: self.cache_type_k,
            cache_values: self.cache_type_v,
            repack: self.repack,
            check_tensors: self.check_tensors,
            neutral_ids: self.neutral_ids,
        };
        Options { model, alias: self.alias.clone(), ..Options::default() }
    }
}

fn gpu_layers(text: &str) -> Result<i32, String> {
    match text {
        "auto" | "all" => Ok(-1),
        number => number.parse().map_err(|_| "a number, `auto` or `all`".to_owned()),
    }
}

fn cache_type(text: &str) -> Result<CacheType, String> {
    CacheType::NAMES.iter().find(|(name, _)| *name == text).map(|&(_, kind)| kind).ok_or_else(|| {
        let names: Vec<&str> = CacheType::NAMES.iter().map(|(name, _)| *name).collect();
        format!("one of {}", names.join(", "))
    })
}
