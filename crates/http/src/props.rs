//! `GET /props`: what llama-server's clients ask about a server, as far as it is true of one that decides.

use hyper::StatusCode;
use serde::Serialize;

use crate::context::Context;
use crate::error::Failure;
use crate::model::Model;
use crate::reply::Reply;

#[derive(Serialize)]
struct Props<'a> {
    default_generation_settings: Settings,
    total_slots: usize,
    model_alias: &'a str,
    model_path: &'a str,
    modalities: Modalities,
    endpoint_slots: bool,
    endpoint_props: bool,
    endpoint_metrics: bool,
    chat_template: &'static str,
    build_info: &'a str,
    is_sleeping: bool,
}

#[derive(Serialize)]
struct Settings {
    n_ctx: u64,
}

#[derive(Serialize)]
struct Modalities {
    vision: bool,
    audio: bool,
    video: bool,
}

pub(crate) fn props(context: &Context, model: &Model) -> Reply {
    let (card, config) = (&model.card, &context.config);
    let reads = |modality: &str| card.input_modalities.iter().any(|known| known == modality);
    let props = Props {
        default_generation_settings: Settings { n_ctx: card.meta.n_ctx },
        total_slots: model.engine.lanes().len(),
        model_alias: &card.name,
        model_path: &card.path,
        modalities: Modalities { vision: reads("image"), audio: false, video: reads("video") },
        endpoint_slots: config.slots,
        endpoint_props: config.props,
        endpoint_metrics: config.metrics,
        chat_template: "",
        build_info: &card.build_info,
        is_sleeping: false,
    };
    Reply::json(StatusCode::OK, &props)
}

#[derive(Serialize)]
struct Changed {
    success: bool,
}

/// `POST /props`: there is nothing to change yet, in llama-server neither.
pub(crate) fn change(context: &Context) -> Result<Reply, Failure> {
    if !context.config.props {
        return Err(Failure::not_supported("changing properties is switched off; start the server with --props"));
    }
    Ok(Reply::json(StatusCode::OK, &Changed { success: true }))
}
