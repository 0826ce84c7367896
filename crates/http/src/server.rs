//! A server from the bound port to its end.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::config::{Listen, ServerConfig};
use crate::connection;
use crate::context::Context;
use crate::listener::{Listener, LocalAddress};
use crate::model::Model;
use crate::origin::{Origins, is_local};
use crate::shutdown::{Cause, Ended, Phase};
use crate::tls;

/// Files that are open beside connections: model, log, event queues.
const OTHER_FILES: u64 = 64;

/// How long a server with a dead engine goes on telling clients so.
const DEAD_ENGINE_TIME: Duration = Duration::from_secs(5);

/// How often the engine is looked at.
const ENGINE_WATCH: Duration = Duration::from_millis(200);

/// How long is waited when no connection can be accepted, as when files run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long the engine may take to end once nobody waits for it. It stops at its next chunk; the process ends anyway.
const ENGINE_END: Duration = Duration::from_millis(500);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {place}: {source}")]
    Bind {
        /// The address as it was given.
        place: String,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// Certificate or key cannot be used.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// The model could not be loaded; the words are those given to [`ServerHandle::fail`].
    #[error("{0}")]
    Load(String),
}

/// A server whose port is bound.
pub struct Server {
    listener: Listener,
    address: LocalAddress,
    tls: Option<TlsAcceptor>,
    context: Arc<Context>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Binds the port. Connections are accepted once [`Server::run`] is polled, and answered with 503 until there is a
    /// model. Raises this process's limit on open files to what the system allows.
    ///
    /// # Errors
    /// If the address cannot be listened on, or certificate and key cannot be used.
    pub async fn bind(config: ServerConfig) -> Result<Self, ServeError> {
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let place = match &config.listen {
            Listen::Tcp { host, port, .. } => format!("{host}:{port}"),
            Listen::Unix(path) => path.display().to_string(),
        };
        let failed = |source| ServeError::Bind { place: place.clone(), source };
        let listener = Listener::bind(&config.listen).await.map_err(failed)?;
        let address = listener.local_address().map_err(failed)?;
        let loopback_name = match (&address, &config.listen) {
            (LocalAddress::Tcp(address), Listen::Tcp { host, .. }) if is_local(&address.ip().to_string()) => {
                Some(host.clone())
            }
            _ => None,
        };
        let origins = Origins::new(config.cors.clone(), loopback_name);
        Ok(Self { listener, address, tls, context: Arc::new(Context::new(config, origins)) })
    }

    /// Where the server can be reached.
    pub fn local_address(&self) -> &LocalAddress {
        &self.address
    }

    /// The network address, if it is one.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match self.address {
            LocalAddress::Tcp(address) => Some(address),
            LocalAddress::Unix(_) => None,
        }
    }

    /// What others hold to steer the server.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle { context: Arc::clone(&self.context) }
    }

    /// Serves until told to end, until the engine is lost, or until there can be no model.
    ///
    /// # Errors
    /// If the model could not be loaded.
    pub async fn run(self) -> Result<Ended, ServeError> {
        let Self { listener, tls, context, .. } = self;
        let life = &context.life;
        life.tasks.spawn(watch_engine(Arc::clone(&context)));
        accept(&listener, tls, &context).await;
        // From here on the system refuses connections.
        drop(listener);
        life.tasks.close();
        tokio::select! {
            () = life.tasks.wait() => {}
            () = life.ending.cancelled() => {}
            () = tokio::time::sleep(context.config.shutdown_timeout) => {
                tracing::warn!("running requests did not end in time and are stopped");
            }
        }
        let at_once = life.ending.is_cancelled();
        life.ending.cancel();
        life.tasks.wait().await;
        if let Some(model) = context.model.get()
            && !at_once
        {
            let engine = model.engine.clone();
            let ended = tokio::task::spawn_blocking(move || engine.shut_down());
            if tokio::time::timeout(ENGINE_END, ended).await.is_err() {
                tracing::warn!("the engine did not end in time");
            }
        }
        life.advance(Phase::Stopped);
        match life.cause() {
            Cause::Told => Ok(Ended::Shutdown),
            Cause::EngineDead => Ok(Ended::EngineDead),
            Cause::LoadFailed(message) => Err(ServeError::Load(message)),
        }
    }
}

/// Accepts connections until the server drains. A permit comes before a connection, so memory is bounded by the limit.
async fn accept(listener: &Listener, tls: Option<TlsAcceptor>, context: &Arc<Context>) {
    let permits = Arc::new(Semaphore::new(max_connections(context.config.max_connections)));
    let next = async || {
        let permit = Arc::clone(&permits).acquire_owned().await;
        // The semaphore is never closed.
        let permit = permit.expect("permits are there as long as the server accepts");
        listener.accept().await.map(|stream| (permit, stream))
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = context.life.draining.cancelled() => return,
            accepted = next() => accepted,
        };
        match accepted {
            Ok((permit, stream)) => {
                let served = connection::serve(stream, tls.clone(), Arc::clone(context));
                context.life.tasks.spawn(async move {
                    served.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::debug!("a connection could not be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// As many connections as wanted, or as there can be open files for.
fn max_connections(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let files = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    let allowed = files.map_or(wanted, |files| usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(wanted));
    if allowed < wanted {
        tracing::info!("at most {allowed} connections at once: the system allows no more open files");
    }
    wanted.min(allowed).clamp(1, Semaphore::MAX_PERMITS)
}

/// Ends the server some time after the engine was lost.
async fn watch_engine(context: Arc<Context>) {
    let watch = async {
        while !context.engine_is_dead() {
            tokio::time::sleep(ENGINE_WATCH).await;
        }
        tracing::error!("the engine is lost; the server ends in {} s", DEAD_ENGINE_TIME.as_secs());
        tokio::time::sleep(DEAD_ENGINE_TIME).await;
        context.life.drain(Cause::EngineDead);
    };
    tokio::select! {
        () = watch => {}
        () = context.life.draining.cancelled() => {}
    }
}

/// Steers a running server, from any thread. Holding one does not keep the server alive.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    context: Arc<Context>,
}

impl ServerHandle {
    /// Hands in the model: from now on requests are answered. Says whether it was taken; a server that is told to end
    /// while it loads takes none. May block until the engine of a model that was not taken has ended.
    pub fn set_model(&self, model: Model) -> bool {
        let is_first = self.context.model.set(model).is_ok();
        is_first && self.context.life.advance(Phase::Serving)
    }

    /// Ends the server because there will be no model; [`Server::run`] returns the message.
    pub fn fail(&self, message: impl Into<String>) {
        self.context.life.drain(Cause::LoadFailed(message.into()));
    }

    /// Ends the server in good order: nothing new is accepted, running requests are finished.
    pub fn shutdown(&self) {
        self.context.life.drain(Cause::Told);
    }

    /// Ends the server at once: running requests are dropped, the engine is not waited for. The process is expected to
    /// exit after [`Server::run`] has returned; dropping the runtime or the last handle may wait for the engine.
    pub fn abort(&self) {
        self.context.life.drain(Cause::Told);
        self.context.life.ending.cancel();
    }

    /// The server's phase, to look at or to wait for.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.context.life.watch()
    }

    /// Waits until the server has come to a phase, or past it.
    pub async fn reached(&self, phase: Phase) {
        // The sender lives in the context that this handle holds.
        let _ = self.phase().wait_for(|&now| now >= phase).await;
    }

    /// Requests being answered now, on all connections.
    pub fn running_requests(&self) -> u64 {
        self.context.counters.running.load(Ordering::Relaxed)
    }

    /// Bytes of large bodies in memory now.
    pub fn body_bytes(&self) -> usize {
        self.context.budget.used()
    }

    /// Waits for SIGTERM or SIGINT and ends the server in good order; a second one ends it at once.
    ///
    /// # Errors
    /// If the signals cannot be watched.
    pub async fn end_on_signals(self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        for is_second in [false, true] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if is_second {
                self.abort();
            } else {
                tracing::info!("told to end; running requests are finished, a second signal ends at once");
                self.shutdown();
            }
        }
        Ok(())
    }
}

/// The threads that connections are served on; `threads` is how many, by default one per core.
///
/// # Errors
/// If the operating system refuses a thread.
pub fn runtime(threads: Option<usize>) -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().thread_name("clef-http");
    if let Some(threads) = threads {
        builder.worker_threads(threads.max(1));
    }
    builder.build()
}
