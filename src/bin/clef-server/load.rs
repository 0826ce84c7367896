//! Loading the model while the port already answers.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use clef_api::{EngineConfig, Record};
use clef_engine::Engine;
use clef_http::{Model, ServerHandle};
use clef_hub::Phase;
use clef_model::Bundle;
use clef_server::flags::Settings;
use clef_server::{ModelFlags, one_line, plain};

use crate::card;
use crate::hooks::Hooked;

/// How often the log says how far the loading has come.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// ggml's name for the processors.
const CPU: &str = "CPU";

/// What is answered before the first request comes.
const WARM_UP: &[u8] = br#"{"state": "warm-up", "questions": {"ready": {"type": "noul"}}}"#;

/// Fetches what the flags name; the log says how far it is.
fn fetched(flags: &ModelFlags, goes_on: &dyn Fn() -> bool) -> anyhow::Result<ModelFlags> {
    // Not an address: its query may be a signature.
    let name = flags.fetch.repository.as_deref().filter(|name| !name.contains("://"));
    tracing::info!("fetching {}", name.map_or("what the URLs name".into(), plain));
    let mut last = Instant::now();
    let fetched = flags.fetch(&mut |progress| {
        if last.elapsed() >= PROGRESS_INTERVAL {
            last = Instant::now();
            let far = match progress.total {
                Some(total) => format!("{} of {} MiB", progress.bytes >> 20, total >> 20),
                None => format!("{} MiB", progress.bytes >> 20),
            };
            match progress.phase {
                Phase::Waiting => tracing::info!("waiting for another download of {}", progress.file),
                Phase::Pausing => tracing::info!("trying again soon: {}", progress.file),
                Phase::Checking => tracing::info!("checking {}: {far}", progress.file),
                _ => tracing::info!("fetching {}: {far}", progress.file),
            }
        }
        if goes_on() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(flags.clone().with(fetched))
}

/// Loads the model and hands it to the server, or ends the server with the reason. Stops early once the server ends.
pub(crate) fn load(settings: &Settings, path: Option<&Path>, server: &ServerHandle, place: &str) {
    match model(settings, path, server) {
        Ok(model) => {
            if server.set_model(model) {
                // A supervisor may start the program anew from here on; before, it would fail the same way.
                clef_api::set_abort_exit_code(crate::serve::ENGINE_LOST);
                tracing::info!("server is listening on {place}");
            }
        }
        Err(error) => server.fail(one_line(&error)),
    }
}

/// `path` is the model's file; none if it has to be fetched first.
fn model(settings: &Settings, path: Option<&Path>, server: &ServerHandle) -> anyhow::Result<Model> {
    let phase = server.phase();
    let goes_on = || *phase.borrow() == clef_http::Phase::Loading;
    let flags = if settings.model.fetches() { fetched(&settings.model, &goes_on)? } else { settings.model.clone() };
    let path = path.or(flags.model.as_deref()).context("the model was not fetched")?;
    let start = Instant::now();
    let delayed_until = start + settings.hooks.load_delay;
    while goes_on() && Instant::now() < delayed_until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut last = start;
    let options = flags.options().model;
    let bundle = Bundle::open(path, &options, &mut |read, all| {
        if last.elapsed() >= PROGRESS_INTERVAL {
            last = Instant::now();
            tracing::info!("loading: {} % of {} MiB", 100 * read / all.max(1), all >> 20);
        }
        goes_on()
    })?;
    let text = card::text(bundle.text());
    let context_tokens = bundle.encoder().context_tokens();
    let sees = bundle.encoder().takes_media();
    let card = card::card(path, flags.alias.as_deref(), bundle.inspection(), context_tokens, sees);
    let device = bundle.device_name().to_owned();
    let threads = bundle.kernels().threads;
    let (encoder, mut evaluator, _) = bundle.into_parts();
    // On a CPU nothing is left to warm up, and reading the prompt of even a small request takes a large model seconds.
    if settings.warmup.unwrap_or(device != CPU) && goes_on() {
        tracing::info!("warming up");
        let record = Record::parse(WARM_UP).expect("the warm-up is a valid request");
        let prompt = encoder.prompt(&record).context("the model cannot answer")?;
        evaluator.logits(&Arc::new(prompt)).context("the model cannot answer")?;
    }
    let config = EngineConfig {
        queue_capacity: settings.queue_size,
        answer_cache: settings.answer_cache,
        ..EngineConfig::default()
    };
    let engine = Engine::start(encoder, Hooked::new(evaluator, settings.hooks), &config)
        .map_err(|error| anyhow!("the engine cannot be started: {error}"))?;
    tracing::info!(
        model = card.name,
        quantization = card.quantization,
        parameters = card.parameter_size,
        device,
        threads,
        context_tokens,
        seconds = (start.elapsed().as_secs_f64() * 100.0).round() / 100.0,
        "ready"
    );
    Ok(Model { engine, card, text: Some(text) })
}
