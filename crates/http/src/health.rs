//! `GET /health`: whether a request would be answered.

use clef_engine::Health;
use hyper::StatusCode;
use serde::Serialize;

use crate::error::Failure;
use crate::model::Model;
use crate::reply::Reply;

#[derive(Serialize)]
struct Healthy {
    status: &'static str,
}

pub(crate) fn health(model: &Model) -> Result<Reply, Failure> {
    match model.engine.health() {
        Health::Running => Ok(Reply::json(StatusCode::OK, &Healthy { status: "ok" })),
        Health::Draining | Health::Stopped => Err(Failure::shutting_down()),
        Health::Dead => Err(Failure::engine_dead()),
    }
}
