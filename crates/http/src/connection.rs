//! One connection, from its first byte to its end.
//!
//! hyper's limit on the time of a head works only with a timer set; it also covers the time between requests, so an idle
//! connection ends by it. When the server drains, hyper closes what it knows to be idle; a connection that has sent
//! nothing or half a head is closed here.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use crate::context::Context;
use crate::counters::Gauge;
use crate::observe::observe;
use crate::stall::{Activity, Stall};

/// The longest head, and the most that is read ahead, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// How often a draining server looks whether a connection has become idle.
const DRAIN_STEP: Duration = Duration::from_millis(20);

/// Serves a connection until either side closes it.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    tls: Option<TlsAcceptor>,
    context: Arc<Context>,
) {
    let counters = &context.counters;
    crate::counters::add(&counters.connections, 1);
    let _open = Gauge::enter(&counters.connections_open);
    let served = async {
        match tls {
            None => talk(stream, &context).await,
            Some(tls) => {
                let handshake = tokio::time::timeout(context.config.header_timeout / 2, tls.accept(stream));
                tokio::select! {
                    accepted = handshake => match accepted {
                        Ok(Ok(stream)) => talk(stream, &context).await,
                        Ok(Err(error)) => tracing::debug!("a TLS handshake failed: {error}"),
                        Err(_) => tracing::debug!("a TLS handshake took too long"),
                    },
                    () = context.life.draining.cancelled() => {}
                }
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = context.life.ending.cancelled() => {}
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, context: &Arc<Context>) {
    let activity = Arc::new(Activity::default());
    let io = TokioIo::new(Stall::new(stream, context.config.write_timeout, Arc::clone(&activity)));
    let service = service_fn(|request| {
        let answering = Answering::begin(&activity);
        let context = Arc::clone(context);
        async move {
            let response = observe(context, request).await;
            drop(answering);
            response
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(context.config.header_timeout)
        // Not `pipeline_flush`: with it, an answer is lost when the connection ends while another request waits.
        .max_buf_size(MAX_HEAD_BYTES);
    let mut connection = pin!(builder.serve_connection(io, service));
    let draining = &context.life.draining;
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            loop {
                match tokio::time::timeout(DRAIN_STEP, connection.as_mut()).await {
                    Ok(result) => break result,
                    // What could be done was done; it is the client that is waited for.
                    Err(_) if activity.is_idle() => break Ok(()),
                    Err(_) => {}
                }
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!("a connection ended: {error}");
    }
}

/// A request that is being answered on a connection.
struct Answering(Arc<Activity>);

impl Answering {
    fn begin(activity: &Arc<Activity>) -> Self {
        activity.requests.fetch_add(1, Relaxed);
        Self(Arc::clone(activity))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let requests: &AtomicUsize = &self.0.requests;
        requests.fetch_sub(1, Relaxed);
    }
}
