//! What the service is told of a model.

use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use clef_api::{Inspection, Text, TokenId};
use clef_http::{ModelCard, ModelMeta, TokenizeOptions};

/// llama.cpp's number for byte-pair vocabularies, which all Clef files have.
const BYTE_PAIR: i32 = 2;

/// The card of a file; `context_tokens` is what a request may have, `sees` whether a projector is loaded.
pub(crate) fn card(
    path: &Path,
    alias: Option<&str>,
    inspection: &Inspection,
    context_tokens: usize,
    sees: bool,
) -> ModelCard {
    let size = inspection.size_label.clone().unwrap_or_else(|| millions(inspection.parameters));
    let named = inspection.name.as_deref().unwrap_or("a Clef model");
    let backbone = inspection.backbone.as_ref();
    ModelCard {
        name: alias.map_or_else(|| path.display().to_string(), str::to_owned),
        path: path.display().to_string(),
        description: format!("{named}, {size} parameters, {}", inspection.quantization),
        release_date: String::new(),
        created: modified(path),
        input_modalities: modalities(sees),
        family: inspection.architecture.clone(),
        parameter_size: size,
        quantization: inspection.quantization.clone(),
        meta: ModelMeta {
            vocab_type: BYTE_PAIR,
            n_vocab: inspection.vocabulary as u64,
            n_ctx: context_tokens as u64,
            n_ctx_train: backbone.map_or(0, |backbone| backbone.trained_context.into()),
            n_embd: backbone.map_or(0, |backbone| backbone.width.into()),
            n_params: inspection.parameters,
            size: inspection.types.iter().map(|share| share.bytes).sum(),
        },
        build_info: concat!(env!("CLEF_LLAMA_BUILD"), "-clef-server-", env!("CARGO_PKG_VERSION")).to_owned(),
    }
}

fn modalities(sees: bool) -> Vec<String> {
    let all: &[&str] = if sees { &["text", "image", "video"] } else { &["text"] };
    all.iter().map(|&modality| modality.to_owned()).collect()
}

fn millions(parameters: u64) -> String {
    format!("{:.1}M", parameters as f64 / 1e6)
}

/// When the file was last written, in seconds since 1970.
fn modified(path: &Path) -> u64 {
    let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |since| since.as_secs())
}

/// A model's vocabulary, as the service asks for it.
pub(crate) fn text(text: Text) -> Arc<dyn clef_http::Text> {
    Arc::new(Vocabulary(text))
}

struct Vocabulary(Text);

impl clef_http::Text for Vocabulary {
    fn tokenize(&self, text: &str, options: TokenizeOptions) -> Result<Vec<TokenId>, String> {
        // There is nothing to add: no vocabulary of this family puts tokens around a text.
        self.0.tokenize(text, options.parse_special).map_err(|error| error.to_string())
    }

    fn piece(&self, token: TokenId) -> Option<Vec<u8>> {
        self.0.piece(token).map(<[u8]>::to_vec)
    }
}
