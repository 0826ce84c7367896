//! From settings to an exit code.

use std::future::{Future as _, poll_fn};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clef_http::{Ended, LocalAddress, Server, ServerConfig, ServerHandle};
use clef_server::flags::Settings;
use clef_server::{ModelFile, one_line};

use crate::{load, log};

/// The exit code for a lost engine: `EX_SOFTWARE` of sysexits.h.
pub(crate) const ENGINE_LOST: i32 = 70;

/// Threads for connections where nobody says how many: one serves thousands of small requests a second, and the model
/// needs the cores.
const MOST_HTTP_THREADS: usize = 4;

/// How long a load that was told to stop may take to notice.
const LOAD_END: Duration = Duration::from_secs(2);

/// Serves until told to end, and ends the program.
///
/// # Errors
/// If there is nothing to start with.
pub(crate) fn serve(settings: &Settings) -> anyhow::Result<ExitCode> {
    let config = settings.server_config().map_err(anyhow::Error::msg)?;
    settings.model.check_source()?;
    // What has to be fetched is fetched while the port answers.
    let model = match settings.model.fetch.repository.is_some() || settings.model.fetch.url.is_some() {
        true => None,
        false => Some(ModelFile::find(settings.model.model.as_deref())?),
    };
    let written = log::start(&settings.log)?;
    greet(settings);
    if let Some(notice) = model.as_ref().and_then(ModelFile::notice) {
        tracing::warn!("{}", notice.trim_start_matches("note: "));
    }
    let code = match run(settings, config, model.as_ref().map(ModelFile::path)) {
        Ok(Ended::Shutdown) => 0,
        Ok(Ended::EngineDead) => ENGINE_LOST,
        Err(error) => {
            let line = one_line(&error);
            if settings.log.jsonl || settings.log.file.is_some() {
                tracing::error!("{line}");
            }
            // The reason is the last thing said.
            drop(written);
            let _ = writeln!(std::io::stderr(), "error: {line}");
            clef_api::exit_now(1)
        }
    };
    tracing::info!("ended");
    drop(written);
    // Threads may still be inside llama.cpp, for a second signal does not wait for them.
    clef_api::exit_now(code)
}

fn run(settings: &Settings, config: ServerConfig, model: Option<&Path>) -> anyhow::Result<Ended> {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let threads = settings.threads_http.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MOST_HTTP_THREADS)
    });
    let runtime = clef_http::runtime(Some(threads)).context("threads for connections cannot be started")?;
    let ended = runtime.block_on(async {
        let server = Server::bind(config).await?;
        let handle = server.handle();
        // Polled once here, so that signals are watched before anybody can know that there is somebody to send one to.
        let mut signals = Box::pin(handle.clone().end_on_signals());
        poll_fn(|context| {
            let _ = signals.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
        let signals = runtime.spawn(signals);
        let place = place(scheme, server.local_address());
        announce(settings, &place)?;
        let loader = spawn_load(settings, model, &handle, place)?;
        let ended = server.run().await;
        // The task ends with the second signal.
        wait(&loader, || signals.is_finished());
        // The last handle would end the engine and wait for it, which a second signal does not. The program ends next.
        std::mem::forget(handle);
        anyhow::Ok(ended?)
    });
    runtime.shutdown_background();
    ended
}

fn spawn_load(
    settings: &Settings,
    path: Option<&Path>,
    handle: &ServerHandle,
    place: String,
) -> anyhow::Result<std::thread::JoinHandle<()>> {
    let (settings, path, handle) = (settings.clone(), path.map(Path::to_owned), handle.clone());
    let body = move || {
        let loaded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            load::load(&settings, path.as_deref(), &handle, &place)
        }));
        if loaded.is_err() {
            handle.fail("loading the model failed");
        }
    };
    std::thread::Builder::new()
        .name("clef-load".to_owned())
        .spawn(body)
        .context("a thread to load with cannot be started")
}

/// Gives a load that was told to stop the time to do so, unless all is to end at once.
fn wait(loader: &std::thread::JoinHandle<()>, at_once: impl Fn() -> bool) {
    let start = Instant::now();
    while !loader.is_finished() && start.elapsed() < LOAD_END && !at_once() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Which program this is, and what of its command line does nothing.
fn greet(settings: &Settings) {
    tracing::info!(
        "clef-server {} ({}), llama.cpp {}, backends: {}",
        env!("CARGO_PKG_VERSION"),
        env!("CLEF_GIT_REVISION"),
        env!("CLEF_LLAMA_BUILD"),
        env!("CLEF_BACKENDS")
    );
    if !settings.ignored.is_empty() {
        tracing::warn!(
            "about generating text, which does not happen here, so without effect: {}",
            settings.ignored.join(" ")
        );
    }
    if !settings.without_effect.is_empty() {
        tracing::warn!("without effect in this version: {}", settings.without_effect.join(" "));
    }
}

/// Where the server can be reached, for people.
fn place(scheme: &str, address: &LocalAddress) -> String {
    match address {
        LocalAddress::Tcp(address) => format!("{scheme}://{address}"),
        LocalAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// Says that the address is taken. That the server listens is said once it can answer, as llama-server does: scripts
/// wait for that line.
fn announce(settings: &Settings, place: &str) -> anyhow::Result<()> {
    tracing::info!("bound to {place}; answers 503 until the model is loaded");
    if settings.prints_address() {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{place}").and_then(|()| out.flush()).context("the port cannot be printed")?;
    }
    Ok(())
}
