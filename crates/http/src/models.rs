//! `GET /v1/models`: what is served, as llama-server lists it and as the hosted API does.
//!
//! `data` is OpenAI's list with llama-server's fields; `models` is both llama-server's second list and the one that the
//! Python SDK reads, which wants a `description` and a `release_date`.

use hyper::StatusCode;
use serde::Serialize;

use crate::model::{Model, ModelCard, ModelMeta};
use crate::reply::Reply;

#[derive(Serialize)]
struct Models<'a> {
    models: [Listed<'a>; 1],
    object: &'static str,
    data: [Data<'a>; 1],
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    model: &'a str,
    modified_at: &'static str,
    size: &'static str,
    digest: &'static str,
    r#type: &'static str,
    description: &'a str,
    release_date: &'a str,
    tags: [&'static str; 1],
    capabilities: Vec<&'static str>,
    parameters: &'static str,
    details: Details<'a>,
}

#[derive(Serialize)]
struct Details<'a> {
    parent_model: &'static str,
    format: &'static str,
    family: &'a str,
    families: [&'a str; 1],
    parameter_size: &'a str,
    quantization_level: &'a str,
}

#[derive(Serialize)]
struct Data<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    architecture: Architecture<'a>,
    meta: ModelMeta,
}

#[derive(Serialize)]
struct Architecture<'a> {
    input_modalities: &'a [String],
    output_modalities: [&'static str; 1],
}

pub(crate) fn models(model: &Model) -> Reply {
    let card = &model.card;
    let listed = Listed {
        name: &card.name,
        model: &card.name,
        modified_at: "",
        size: "",
        digest: "",
        r#type: "model",
        description: &card.description,
        release_date: &card.release_date,
        tags: [""],
        capabilities: capabilities(card),
        parameters: "",
        details: Details {
            parent_model: "",
            format: "gguf",
            family: &card.family,
            families: [&card.family],
            parameter_size: &card.parameter_size,
            quantization_level: &card.quantization,
        },
    };
    let data = Data {
        id: &card.name,
        object: "model",
        created: card.created,
        owned_by: "llamacpp",
        architecture: Architecture { input_modalities: &card.input_modalities, output_modalities: ["decisions"] },
        meta: card.meta,
    };
    Reply::json(StatusCode::OK, &Models { models: [listed], object: "list", data: [data] })
}

/// llama-server's words: `multimodal` for a model that reads more than text.
fn capabilities(card: &ModelCard) -> Vec<&'static str> {
    let is_multimodal = card.input_modalities.iter().any(|modality| modality != "text");
    if is_multimodal { vec!["decisions", "multimodal"] } else { vec!["decisions"] }
}
