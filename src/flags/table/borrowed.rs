//! Flags of llama-server's that do nothing here, and those that are refused.
//!
//! Start lines are copied from machine to machine: a server that is a drop-in has to know how many values follow each
//! of llama-server's flags, whatever it thinks of them. The names are those of llama.cpp b11434 (`common/arg.cpp`) and
//! of some releases before it.

use crate::flags::flag::Flag;
use crate::flags::flag::Group::{Common, Sampling, Server, Speculative};
use crate::flags::flag::Takes::{Nothing, Two, Value};

const V: crate::flags::flag::Takes = Value("VALUE");

/// What llama-server does with a model and we do not yet.
pub(super) const MODEL_NOT_YET: &[Flag] = &[
    Flag::unavailable(&["--docker-repo", "-dr"], Value("REPO"), "Model to download from Docker Hub")
        .hide()
        .env("LLAMA_ARG_DOCKER_REPO"),
    Flag::unavailable(&["--override-tensor", "-ot"], V, "").hide().env("LLAMA_ARG_OVERRIDE_TENSOR"),
    Flag::unavailable(&["--n-cpu-ffn", "-ncffn"], V, "").hide().env("LLAMA_ARG_N_CPU_FFN"),
    Flag::unavailable(&["--rpc"], V, "").hide().env("LLAMA_ARG_RPC"),
    Flag::unavailable(&["--models-dir"], V, "").hide().env("LLAMA_ARG_MODELS_DIR"),
    Flag::unavailable(&["--models-preset"], V, "").hide().env("LLAMA_ARG_MODELS_PRESET"),
    Flag::unavailable(&["--cache-list", "-cl"], Nothing, "").hide(),
    quiet(&["--cpu-mask", "-C"], V),
    quiet(&["--cpu-range", "-Cr"], V),
    quiet(&["--cpu-strict"], V),
    quiet(&["--prio"], V),
    quiet(&["--poll"], V),
    quiet(&["--cpu-mask-batch", "-Cb"], V),
    quiet(&["--cpu-range-batch", "-Crb"], V),
    quiet(&["--cpu-strict-batch"], V),
    quiet(&["--prio-batch"], V),
    quiet(&["--poll-batch"], V),
    quiet(&["--kv-unified-per-slot"], V).env("LLAMA_ARG_KV_UNIFIED_PER_SLOT"),
    quiet(&["--kv-unified", "-kvu"], Nothing).off(&["--no-kv-unified", "-no-kvu"]).env("LLAMA_ARG_KV_UNIFIED"),
    quiet(&["--kv-offload", "-kvo"], Nothing).off(&["--no-kv-offload", "-nkvo"]).env("LLAMA_ARG_KV_OFFLOAD"),
    quiet(&["--op-offload"], Nothing).off(&["--no-op-offload"]),
    quiet(&["--no-host"], Nothing).env("LLAMA_ARG_NO_HOST"),
    quiet(&["--defrag-thold", "-dt"], V).env("LLAMA_ARG_DEFRAG_THOLD"),
    quiet(&["--direct-io", "-dio"], Nothing).off(&["--no-direct-io", "-ndio"]).env("LLAMA_ARG_DIO"),
    quiet(&["--lazy-mode", "-lzm"], V).env("LLAMA_ARG_LAZY_MODE"),
    quiet(&["--cpu-moe", "-cmoe"], Nothing).env("LLAMA_ARG_CPU_MOE"),
    quiet(&["--n-cpu-moe", "-ncmoe"], V).env("LLAMA_ARG_N_CPU_MOE"),
    quiet(&["--fit-target", "-fitt"], V).env("LLAMA_ARG_FIT_TARGET"),
    quiet(&["--fit-ctx", "-fitc"], V).env("LLAMA_ARG_FIT_CTX"),
    quiet(&["--mmproj-device", "-mmdev"], V).env("MTMD_BACKEND_DEVICE"),
    quiet(&["--mtmd-batch-max-tokens"], V).env("LLAMA_ARG_MTMD_BATCH_MAX_TOKENS"),
    quiet(&["--video-fps"], V).env("LLAMA_ARG_VIDEO_FPS"),
    quiet(&["--video-timestamp-interval"], V).env("LLAMA_ARG_VIDEO_TIMESTAMP_INTERVAL"),
    quiet(&["--video-ffmpeg-dir"], V).env("LLAMA_ARG_VIDEO_FFMPEG_DIR"),
    quiet(&["--log-prompts-dir"], V),
];

/// The same of the server's.
pub(super) const SERVER_NOT_YET: &[Flag] = &[
    quiet(&["--media-path"], V).of(Server),
    quiet(&["--slot-save-path"], V).of(Server),
    quiet(&["--sleep-idle-seconds"], V).of(Server),
    quiet(&["--tags"], V).of(Server).env("LLAMA_ARG_TAGS"),
    quiet(&["--models-max"], V).of(Server).env("LLAMA_ARG_MODELS_MAX"),
    quiet(&["--models-autoload"], Nothing).of(Server).off(&["--no-models-autoload"]).env("LLAMA_ARG_MODELS_AUTOLOAD"),
    quiet(&["--cont-batching", "-cb"], Nothing)
        .of(Server)
        .off(&["--no-cont-batching", "-nocb"])
        .env("LLAMA_ARG_CONT_BATCHING"),
    quiet(&["--cache-prompt"], Nothing).of(Server).off(&["--no-cache-prompt"]).env("LLAMA_ARG_CACHE_PROMPT"),
    quiet(&["--cache-idle-slots"], Nothing)
        .of(Server)
        .off(&["--no-cache-idle-slots"])
        .env("LLAMA_ARG_CACHE_IDLE_SLOTS"),
    quiet(&["--slot-prompt-similarity", "-sps"], V).of(Server),
];

/// Flags about generating text and showing it.
pub(super) const TEXT: &[Flag] = &[
    Flag::ignored(&["--predict", "-n", "--n-predict"], V, Common).env("LLAMA_ARG_N_PREDICT"),
    Flag::ignored(&["--keep"], V, Common),
    Flag::ignored(&["--swa-full"], Nothing, Common).env("LLAMA_ARG_SWA_FULL"),
    Flag::ignored(&["--ctx-checkpoints", "-ctxcp", "--swa-checkpoints"], V, Common).env("LLAMA_ARG_CTX_CHECKPOINTS"),
    Flag::ignored(&["--checkpoint-min-step", "-cms"], V, Common).env("LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT"),
    Flag::ignored(&["--context-shift"], Nothing, Common).off(&["--no-context-shift"]).env("LLAMA_ARG_CONTEXT_SHIFT"),
    Flag::ignored(&["--perf"], Nothing, Common).off(&["--no-perf"]).env("LLAMA_ARG_PERF"),
    Flag::ignored(&["--escape", "-e"], Nothing, Common).off(&["--no-escape"]),
    Flag::ignored(&["--reverse-prompt", "-r"], V, Common),
    Flag::ignored(&["--special", "-sp"], Nothing, Common),
    Flag::ignored(&["--spm-infill"], Nothing, Common),
    Flag::ignored(&["--pooling"], V, Common).env("LLAMA_ARG_POOLING"),
    Flag::ignored(&["--embd-normalize"], V, Common),
    Flag::ignored(&["--samplers"], V, Sampling),
    Flag::ignored(&["--seed", "-s"], V, Sampling),
    Flag::ignored(&["--sampler-seq", "--sampling-seq"], V, Sampling),
    Flag::ignored(&["--ignore-eos"], Nothing, Sampling),
    Flag::ignored(&["--temp", "--temperature"], V, Sampling).env("LLAMA_ARG_TEMPERATURE"),
    Flag::ignored(&["--top-k"], V, Sampling).env("LLAMA_ARG_TOP_K"),
    Flag::ignored(&["--top-p"], V, Sampling).env("LLAMA_ARG_TOP_P"),
    Flag::ignored(&["--min-p"], V, Sampling).env("LLAMA_ARG_MIN_P"),
    Flag::ignored(&["--top-nsigma", "--top-n-sigma"], V, Sampling),
    Flag::ignored(&["--xtc-probability"], V, Sampling),
    Flag::ignored(&["--xtc-threshold"], V, Sampling),
    Flag::ignored(&["--typical", "--typical-p"], V, Sampling),
    Flag::ignored(&["--repeat-last-n"], V, Sampling),
    Flag::ignored(&["--repeat-penalty"], V, Sampling).env("LLAMA_ARG_REPEAT_PENALTY"),
    Flag::ignored(&["--presence-penalty"], V, Sampling).env("LLAMA_ARG_PRESENCE_PENALTY"),
    Flag::ignored(&["--frequency-penalty"], V, Sampling).env("LLAMA_ARG_FREQUENCY_PENALTY"),
    Flag::ignored(&["--dry-multiplier"], V, Sampling),
    Flag::ignored(&["--dry-base"], V, Sampling),
    Flag::ignored(&["--dry-allowed-length"], V, Sampling),
    Flag::ignored(&["--dry-penalty-last-n"], V, Sampling),
    Flag::ignored(&["--dry-sequence-breaker"], V, Sampling),
    Flag::ignored(&["--adaptive-target"], V, Sampling),
    Flag::ignored(&["--adaptive-decay"], V, Sampling),
    Flag::ignored(&["--dynatemp-range"], V, Sampling),
    Flag::ignored(&["--dynatemp-exp"], V, Sampling),
    Flag::ignored(&["--mirostat"], V, Sampling),
    Flag::ignored(&["--mirostat-lr"], V, Sampling),
    Flag::ignored(&["--mirostat-ent"], V, Sampling),
    Flag::ignored(&["--logit-bias", "-l"], V, Sampling),
    Flag::ignored(&["--backend-sampling", "-bs"], Nothing, Sampling).env("LLAMA_ARG_BACKEND_SAMPLING"),
    Flag::ignored(&["--embedding", "--embeddings"], Nothing, Server).env("LLAMA_ARG_EMBEDDINGS"),
    Flag::ignored(&["--rerank", "--reranking"], Nothing, Server).env("LLAMA_ARG_RERANKING"),
    Flag::ignored(&["--path"], V, Server).env("LLAMA_ARG_STATIC_PATH"),
    Flag::ignored(&["--ui", "--webui"], Nothing, Server).off(&["--no-ui", "--no-webui"]).env("LLAMA_ARG_UI"),
    Flag::ignored(&["--ui-config", "--webui-config"], V, Server).env("LLAMA_ARG_UI_CONFIG"),
    Flag::ignored(&["--ui-config-file", "--webui-config-file"], V, Server).env("LLAMA_ARG_UI_CONFIG_FILE"),
    Flag::ignored(&["--ui-mcp-proxy", "--webui-mcp-proxy"], Nothing, Server)
        .off(&["--no-ui-mcp-proxy", "--no-webui-mcp-proxy"])
        .env("LLAMA_ARG_UI_MCP_PROXY"),
    Flag::ignored(&["--tools"], V, Server).env("LLAMA_ARG_TOOLS"),
    Flag::ignored(&["--tools-runtime"], V, Server).env("LLAMA_ARG_TOOLS_RUNTIME"),
    Flag::ignored(&["--mcp-servers-config"], V, Server).env("LLAMA_ARG_MCP_SERVERS_CONFIG"),
    Flag::ignored(&["--mcp-servers-json"], V, Server).env("LLAMA_ARG_MCP_SERVERS_JSON"),
    Flag::ignored(&["--agent", "-ag"], Nothing, Server).off(&["--no-agent", "-no-ag"]).env("LLAMA_ARG_AGENT"),
    Flag::ignored(&["--sse-ping-interval"], V, Server).env("LLAMA_ARG_SSE_PING_INTERVAL"),
    Flag::ignored(&["--cache-reuse"], V, Server).env("LLAMA_ARG_CACHE_REUSE"),
    Flag::ignored(&["--jinja"], Nothing, Server).off(&["--no-jinja"]).env("LLAMA_ARG_JINJA"),
    Flag::ignored(&["--chat-template"], V, Server).env("LLAMA_ARG_CHAT_TEMPLATE"),
    Flag::ignored(&["--chat-template-file"], V, Server).env("LLAMA_ARG_CHAT_TEMPLATE_FILE"),
    Flag::ignored(&["--chat-template-kwargs"], V, Server).env("LLAMA_ARG_CHAT_TEMPLATE_KWARGS"),
    Flag::ignored(&["--skip-chat-parsing"], Nothing, Server)
        .off(&["--no-skip-chat-parsing"])
        .env("LLAMA_ARG_SKIP_CHAT_PARSING"),
    Flag::ignored(&["--prefill-assistant"], Nothing, Server)
        .off(&["--no-prefill-assistant"])
        .env("LLAMA_ARG_PREFILL_ASSISTANT"),
    Flag::ignored(&["--reasoning-format"], V, Server).env("LLAMA_ARG_THINK"),
    Flag::ignored(&["--reasoning", "-rea"], V, Server).env("LLAMA_ARG_REASONING"),
    Flag::ignored(&["--reasoning-effort"], V, Server).env("LLAMA_ARG_REASONING_EFFORT"),
    Flag::ignored(&["--reasoning-budget"], V, Server).env("LLAMA_ARG_THINK_BUDGET"),
    Flag::ignored(&["--reasoning-budget-message"], V, Server).env("LLAMA_ARG_THINK_BUDGET_MESSAGE"),
    Flag::ignored(&["--reasoning-preserve"], Nothing, Server)
        .off(&["--no-reasoning-preserve"])
        .env("LLAMA_ARG_REASONING_PRESERVE"),
];

/// Flags that change what a model computes, or are about guessing text ahead.
pub(super) const FOREIGN: &[Flag] = &[
    Flag::foreign(&["--lora"], V, Common),
    Flag::foreign(&["--lora-scaled"], V, Common),
    Flag::foreign(&["--lora-init-without-apply"], Nothing, Server),
    Flag::foreign(&["--control-vector"], V, Common),
    Flag::foreign(&["--control-vector-scaled"], V, Common),
    Flag::foreign(&["--control-vector-layer-range"], Two("START", "END"), Common),
    Flag::foreign(&["--rope-scaling"], V, Common).env("LLAMA_ARG_ROPE_SCALING_TYPE"),
    Flag::foreign(&["--rope-scale"], V, Common).env("LLAMA_ARG_ROPE_SCALE"),
    Flag::foreign(&["--rope-freq-base"], V, Common).env("LLAMA_ARG_ROPE_FREQ_BASE"),
    Flag::foreign(&["--rope-freq-scale"], V, Common).env("LLAMA_ARG_ROPE_FREQ_SCALE"),
    Flag::foreign(&["--yarn-orig-ctx"], V, Common).env("LLAMA_ARG_YARN_ORIG_CTX"),
    Flag::foreign(&["--yarn-ext-factor"], V, Common).env("LLAMA_ARG_YARN_EXT_FACTOR"),
    Flag::foreign(&["--yarn-attn-factor"], V, Common).env("LLAMA_ARG_YARN_ATTN_FACTOR"),
    Flag::foreign(&["--yarn-beta-slow"], V, Common).env("LLAMA_ARG_YARN_BETA_SLOW"),
    Flag::foreign(&["--yarn-beta-fast"], V, Common).env("LLAMA_ARG_YARN_BETA_FAST"),
    Flag::foreign(&["--grammar"], V, Sampling),
    Flag::foreign(&["--grammar-file"], V, Sampling),
    Flag::foreign(&["--json-schema", "-j"], V, Sampling),
    Flag::foreign(&["--json-schema-file", "-jf"], V, Sampling),
    Flag::foreign(&["--lookup-cache-static", "-lcs"], V, Speculative),
    Flag::foreign(&["--lookup-cache-dynamic", "-lcd"], V, Speculative),
    Flag::foreign(&["--spec-draft-hf", "-hfd", "-hfrd", "--hf-repo-draft"], V, Speculative)
        .env("LLAMA_ARG_SPEC_DRAFT_HF_REPO"),
    Flag::foreign(&["--spec-draft-threads", "-td", "--threads-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-threads-batch", "-tbd", "--threads-batch-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-cpu-mask", "-Cd", "--cpu-mask-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-cpu-range", "-Crd", "--cpu-range-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-cpu-strict", "--cpu-strict-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-prio", "--prio-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-poll", "--poll-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-cpu-mask-batch", "-Cbd", "--cpu-mask-batch-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-cpu-strict-batch", "--cpu-strict-batch-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-prio-batch", "--prio-batch-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-poll-batch", "--poll-batch-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-type-k", "-ctkd", "--cache-type-k-draft"], V, Speculative)
        .env("LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K"),
    Flag::foreign(&["--spec-draft-type-v", "-ctvd", "--cache-type-v-draft"], V, Speculative)
        .env("LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V"),
    Flag::foreign(&["--spec-draft-override-tensor", "-otd", "--override-tensor-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-cpu-moe", "-cmoed", "--cpu-moe-draft"], Nothing, Speculative)
        .env("LLAMA_ARG_SPEC_DRAFT_CPU_MOE"),
    Flag::foreign(&["--spec-draft-n-cpu-moe", "--spec-draft-ncmoe", "-ncmoed", "--n-cpu-moe-draft"], V, Speculative)
        .env("LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE"),
    Flag::foreign(&["--spec-draft-n-max"], V, Speculative).env("LLAMA_ARG_SPEC_DRAFT_N_MAX"),
    Flag::foreign(&["--spec-draft-n-min"], V, Speculative).env("LLAMA_ARG_SPEC_DRAFT_N_MIN"),
    Flag::foreign(&["--spec-synth-len"], V, Speculative).env("LLAMA_ARG_SPEC_SYNTH_LEN"),
    Flag::foreign(&["--spec-synth-rates"], V, Speculative).env("LLAMA_ARG_SPEC_SYNTH_RATES"),
    Flag::foreign(&["--spec-draft-p-split", "--draft-p-split"], V, Speculative).env("LLAMA_ARG_SPEC_DRAFT_P_SPLIT"),
    Flag::foreign(&["--spec-draft-p-min", "--draft-p-min"], V, Speculative).env("LLAMA_ARG_SPEC_DRAFT_P_MIN"),
    Flag::foreign(&["--spec-draft-backend-sampling"], Nothing, Speculative)
        .off(&["--no-spec-draft-backend-sampling"])
        .env("LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING"),
    Flag::foreign(&["--spec-draft-sampling"], V, Speculative).env("LLAMA_ARG_SPEC_DRAFT_SAMPLING"),
    Flag::foreign(&["--spec-draft-device", "-devd", "--device-draft"], V, Speculative),
    Flag::foreign(&["--spec-draft-ngl", "-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft"], V, Speculative)
        .env("LLAMA_ARG_N_GPU_LAYERS_DRAFT"),
    Flag::foreign(&["--spec-draft-model", "-md", "--model-draft"], V, Speculative).env("LLAMA_ARG_SPEC_DRAFT_MODEL"),
    Flag::foreign(&["--spec-type"], V, Speculative).env("LLAMA_ARG_SPEC_TYPE"),
    Flag::foreign(&["--spec-ngram-mod-n-min"], V, Speculative),
    Flag::foreign(&["--spec-ngram-mod-n-max"], V, Speculative),
    Flag::foreign(&["--spec-ngram-mod-n-match"], V, Speculative),
    Flag::foreign(&["--spec-ngram-simple-size-n"], V, Speculative),
    Flag::foreign(&["--spec-ngram-simple-size-m"], V, Speculative),
    Flag::foreign(&["--spec-ngram-simple-min-hits"], V, Speculative),
    Flag::foreign(&["--spec-ngram-map-k-size-n"], V, Speculative),
    Flag::foreign(&["--spec-ngram-map-k-size-m"], V, Speculative),
    Flag::foreign(&["--spec-ngram-map-k-min-hits"], V, Speculative),
    Flag::foreign(&["--spec-ngram-map-k4v-size-n"], V, Speculative),
    Flag::foreign(&["--spec-ngram-map-k4v-size-m"], V, Speculative),
    Flag::foreign(&["--spec-ngram-map-k4v-min-hits"], V, Speculative),
    Flag::foreign(&["--draft", "--draft-n", "--draft-max"], V, Speculative).env("LLAMA_ARG_DRAFT_MAX"),
    Flag::foreign(&["--draft-min", "--draft-n-min"], V, Speculative).env("LLAMA_ARG_DRAFT_MIN"),
    Flag::foreign(&["--spec-ngram-size-n"], V, Speculative),
    Flag::foreign(&["--spec-ngram-size-m"], V, Speculative),
    Flag::foreign(&["--spec-ngram-min-hits"], V, Speculative),
    Flag::foreign(&["--spec-default"], Nothing, Speculative),
];

/// A flag that people rarely set; nothing about it is built.
const fn quiet(names: &'static [&'static str], takes: crate::flags::flag::Takes) -> Flag {
    Flag::later(names, takes, "", |_| Ok(true)).hide()
}
