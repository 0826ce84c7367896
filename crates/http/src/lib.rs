//! The HTTP service in front of an engine: endpoints, limits, errors, life cycle.
//!
//! Why it exists: an engine answers records, clients send bytes. Everything between the two is here and nowhere else —
//! who may ask, how much and how slowly, what is wrong with a request and how to say so to every kind of client, and how
//! a server starts and ends without losing anybody's answer. The service never sees a model: it is given an
//! [`Engine`](clef_engine::Engine), a card that says what to tell about the model, and perhaps its vocabulary.
//!
//! ```text
//! socket -> permit -> connection -> observe -> router -> endpoint -> body -> Record -> Engine -> Decision -> JSON
//!   listener, server    |  stall      |          |                    budget, encoding, multipart
//!                      timeouts    id, counts,  loading? key?
//!                                  log, panics  origin? path?
//! ```
//!
//! ```no_run
//! use clef_http::{Ended, Server, ServerConfig};
//!
//! let runtime = clef_http::runtime(None)?;
//! let ended = runtime.block_on(async {
//!     let server = Server::bind(ServerConfig::default()).await?;
//!     let handle = server.handle();
//!     tokio::spawn(handle.clone().end_on_signals());
//!     std::thread::spawn(move || {
//!         // Load the model here, then `handle.set_model(model)`; or say why there is none:
//!         handle.fail("there is no model");
//!     });
//!     server.run().await
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod auth;
mod body;
mod budget;
mod config;
mod connection;
mod context;
mod counters;
mod decide;
mod encoding;
mod error;
mod health;
mod listener;
mod metrics;
mod model;
mod models;
mod multipart;
mod observe;
mod origin;
mod props;
mod reply;
mod request_id;
mod router;
mod server;
mod shutdown;
mod slots;
mod stall;
mod tls;
mod tokenize;

pub use config::{ApiKey, Cors, Listen, ServerConfig, TlsFiles, ValidationStatus};
pub use listener::LocalAddress;
pub use model::{Model, ModelCard, ModelMeta, Text, TokenizeOptions};
pub use server::{ServeError, Server, ServerHandle, runtime};
pub use shutdown::{Ended, Phase};
