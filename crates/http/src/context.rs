//! What all connections of a server share.

use std::sync::{Arc, OnceLock};

use clef_engine::Health;
use tokio::sync::Semaphore;

use crate::budget::Budget;
use crate::config::ServerConfig;
use crate::counters::Counters;
use crate::error::Failure;
use crate::model::Model;
use crate::origin::Origins;
use crate::request_id::RequestIds;
use crate::shutdown::{Life, Phase};
use crate::tokenize;

/// Shared state; everything in it may be used from any thread.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: ServerConfig,
    pub(crate) life: Life,
    pub(crate) budget: Arc<Budget>,
    pub(crate) counters: Counters,
    pub(crate) request_ids: RequestIds,
    pub(crate) origins: Origins,
    /// As many large bodies are parsed at once as there are cores.
    pub(crate) parsers: Semaphore,
    /// Texts that clients may have tokenized at once. A permit goes along with the work, which outlives its client.
    pub(crate) tokenizers: Arc<Semaphore>,
    pub(crate) model: OnceLock<Model>,
}

impl Context {
    pub(crate) fn new(mut config: ServerConfig, origins: Origins) -> Self {
        config.api_prefix = normal_prefix(&config.api_prefix);
        Self {
            life: Life::new(),
            budget: Budget::new(config.max_bodies_bytes_in_flight),
            counters: Counters::default(),
            request_ids: RequestIds::new(),
            origins,
            parsers: Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from)),
            tokenizers: Arc::new(Semaphore::new(tokenize::MAX_AT_ONCE)),
            model: OnceLock::new(),
            config,
        }
    }

    /// The model, if the server is in the phase in which it answers.
    pub(crate) fn serving(&self) -> Result<&Model, Failure> {
        match self.life.phase() {
            Phase::Loading => Err(Failure::loading()),
            Phase::Draining | Phase::Stopped => Err(Failure::shutting_down()),
            Phase::Serving => self.model.get().ok_or_else(Failure::loading),
        }
    }

    /// Whether the engine thread is lost.
    pub(crate) fn engine_is_dead(&self) -> bool {
        self.model.get().is_some_and(|model| model.engine.health() == Health::Dead)
    }
}

/// `clef`, `/clef` and `/clef/` are all `/clef`.
fn normal_prefix(prefix: &str) -> String {
    let name = prefix.trim_matches('/');
    if name.is_empty() { String::new() } else { format!("/{name}") }
}
