//! Which endpoint a request is for, and what is checked before it gets there.
//!
//! The order is part of the contract: a server that loads says so to everyone, then the key is looked at (but for
//! health), then where the request comes from, and only then what it asks for.

use hyper::{HeaderMap, Method, StatusCode, Uri};

use crate::body::RequestBody;
use crate::context::Context;
use crate::error::Failure;
use crate::reply::Reply;
use crate::shutdown::Phase;
use crate::{auth, decide, health, metrics, models, props, slots, tokenize};

/// An endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Decide,
    Health,
    Models,
    Props,
    ChangeProps,
    Slots,
    Metrics,
    Tokenize,
    Detokenize,
    Preflight,
    Unknown,
}

impl Route {
    pub(crate) const ALL: [Self; 11] = [
        Self::Decide,
        Self::Health,
        Self::Models,
        Self::Props,
        Self::ChangeProps,
        Self::Slots,
        Self::Metrics,
        Self::Tokenize,
        Self::Detokenize,
        Self::Preflight,
        Self::Unknown,
    ];

    /// Finds the endpoint. A known path with another method is unknown, as it is in llama-server.
    fn of(prefix: &str, method: &Method, path: &str) -> Self {
        let is_get = matches!(*method, Method::GET | Method::HEAD);
        let is_post = *method == Method::POST;
        match path.strip_prefix(prefix) {
            Some("/health" | "/v1/health") if is_get => Self::Health,
            Some("/models" | "/v1/models") if is_get => Self::Models,
            Some("/props") if is_get => Self::Props,
            Some("/props") if is_post => Self::ChangeProps,
            Some("/slots") if is_get => Self::Slots,
            Some("/metrics") if is_get => Self::Metrics,
            Some("/v1/systemone") if is_post => Self::Decide,
            Some("/tokenize") if is_post => Self::Tokenize,
            Some("/detokenize") if is_post => Self::Detokenize,
            _ => Self::Unknown,
        }
    }

    /// What logs and metrics call it. Never the path as sent, which may hold anything.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Decide => "/v1/systemone",
            Self::Health => "/health",
            Self::Models => "/v1/models",
            Self::Props | Self::ChangeProps => "/props",
            Self::Slots => "/slots",
            Self::Metrics => "/metrics",
            Self::Tokenize => "/tokenize",
            Self::Detokenize => "/detokenize",
            Self::Preflight => "preflight",
            Self::Unknown => "unknown",
        }
    }
}

/// A request without its body.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
}

impl Head {
    pub(crate) fn route(&self, context: &Context) -> Route {
        if self.method == Method::OPTIONS && context.origins.has_cors() {
            return Route::Preflight;
        }
        Route::of(&context.config.api_prefix, &self.method, self.uri.path())
    }
}

/// Answers a request.
pub(crate) async fn answer(
    context: &Context,
    route: Route,
    head: &Head,
    body: &mut RequestBody,
) -> Result<Reply, Failure> {
    if route == Route::Preflight {
        // Browsers ask this without a key, and a page should learn that the model still loads.
        return Ok(Reply::new(StatusCode::OK, hyper::header::HeaderValue::from_static("text/html"), ""));
    }
    if context.life.phase() == Phase::Loading {
        return Err(Failure::loading());
    }
    if route != Route::Health {
        auth::check(&context.config.api_keys, &head.headers)?;
    }
    context.origins.check(&head.uri, &head.headers)?;
    if route == Route::Unknown {
        return Err(Failure::not_found());
    }
    let model = context.serving()?;
    match route {
        Route::Decide => decide::decide(context, model, &head.headers, body).await,
        Route::Health => health::health(model),
        Route::Models => Ok(models::models(model)),
        Route::Props => Ok(props::props(context, model)),
        Route::ChangeProps => props::change(context),
        Route::Slots => slots::slots(context, model, head.uri.query()),
        Route::Metrics => metrics::metrics(context, model),
        Route::Tokenize => tokenize::tokenize(context, model, &head.headers, body).await,
        Route::Detokenize => tokenize::detokenize(context, model, &head.headers, body).await,
        Route::Preflight | Route::Unknown => Err(Failure::not_found()),
    }
}
