//! Browsers: who may call through one, and who is kept out.
//!
//! A page of any site can send requests to a server on the reader's own machine, and with a name that resolves to
//! 127.0.0.1 (DNS rebinding) even read the answers. So a server on a loopback address refuses what a browser sends on a
//! foreign page's behalf. `Origin` says which page that is, but a plain GET has none, and `Sec-Fetch-*` is not sent to
//! names that are not of this machine without TLS. So where the server is called by such a name, a browser is also known
//! by `Referer` and by how all of them begin their `User-Agent`. Programs that are no browsers send none of these and are
//! never affected; Node's `fetch` sends a lone `Sec-Fetch-Mode: cors`, which therefore does not count.

use std::net::IpAddr;

use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_HEADERS, HOST, HeaderValue,
    ORIGIN, REFERER, USER_AGENT, VARY,
};
use hyper::{HeaderMap, Uri};

use crate::config::Cors;
use crate::error::{Failure, FailureKind};

/// Headers of ours that a page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-typesafe-request-id, server-timing, retry-after, retry-after-ms, x-clef-cached-tokens, x-clef-computed-tokens, \
     x-clef-truncated-tokens",
);

/// The rules for one server.
#[derive(Debug)]
pub(crate) struct Origins {
    cors: Option<Cors>,
    /// For a server on a loopback address, the name it was told to listen on.
    loopback_name: Option<String>,
}

impl Origins {
    pub(crate) fn new(cors: Option<Cors>, loopback_name: Option<String>) -> Self {
        Self { cors, loopback_name }
    }

    /// Whether browsers may be told anything at all.
    pub(crate) fn has_cors(&self) -> bool {
        self.cors.is_some()
    }

    /// Refuses what a browser sends for a page that may not call.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
        let Some(own_name) = &self.loopback_name else { return Ok(()) };
        let is_ours = |host: &str| is_local(host) || host.eq_ignore_ascii_case(own_name);
        for origin in headers.get_all(ORIGIN) {
            let is_admitted = self.admits(origin) || host_of(origin).is_some_and(|host| is_ours(&host));
            if !is_admitted {
                return Err(foreign_page());
            }
        }
        // Images, scripts and links have no origin, but may come from anywhere.
        let is_cross_site = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
        if is_cross_site && !headers.contains_key(ORIGIN) && !self.admits_all() {
            return Err(foreign_page());
        }
        if self.cors.is_none() && is_from_browser(headers) {
            let host = uri.host().map(str::to_owned).or_else(|| {
                let host = headers.get(HOST)?.to_str().ok()?;
                Some(host.parse::<hyper::http::uri::Authority>().ok()?.host().to_owned())
            });
            if !host.is_some_and(|host| is_ours(&host)) {
                return Err(Failure::new(
                    FailureKind::ForeignOrigin,
                    "the browser knows this server by a name that is not of this machine",
                ));
            }
        }
        Ok(())
    }

    fn admits_all(&self) -> bool {
        self.cors.as_ref().is_some_and(|cors| cors.origins.iter().any(|admitted| admitted == "*"))
    }

    fn admits(&self, origin: &HeaderValue) -> bool {
        let Some(cors) = &self.cors else { return false };
        cors.origins.iter().any(|admitted| match admitted.as_str() {
            "*" => true,
            "localhost" => host_of(origin).is_some_and(|host| is_local(&host)),
            exact => origin.as_bytes().eq_ignore_ascii_case(exact.trim_end_matches('/').as_bytes()),
        })
    }

    /// Tells a browser that the page may read the answer.
    pub(crate) fn label(&self, request: &HeaderMap, response: &mut HeaderMap) {
        let Some(cors) = &self.cors else { return };
        response.append(VARY, HeaderValue::from_static("origin"));
        let Some(origin) = request.get(ORIGIN).filter(|origin| self.admits(origin)) else { return };
        response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        response.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        if cors.credentials {
            response.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
    }

    /// Tells a browser what the page may send.
    pub(crate) fn label_preflight(&self, request: &HeaderMap, response: &mut HeaderMap) {
        let Some(cors) = &self.cors else { return };
        if !request.get(ORIGIN).is_some_and(|origin| self.admits(origin)) {
            return;
        }
        let text = |value: &str| HeaderValue::from_str(value).ok();
        if let Some(methods) = text(&cors.methods) {
            response.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
        }
        let wanted = request.get(ACCESS_CONTROL_REQUEST_HEADERS).filter(|_| cors.headers == "*");
        if let Some(headers) = wanted.cloned().or_else(|| text(&cors.headers)) {
            response.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers);
        }
    }
}

fn foreign_page() -> Failure {
    Failure::new(
        FailureKind::ForeignOrigin,
        "the page this request comes from may not call a server on this machine; see --cors-origins",
    )
}

/// Whether a request bears a browser's marks. Only asked where the server is called by a name that is not its own, or
/// a page on this machine that the reader visits would be refused.
fn is_from_browser(headers: &HeaderMap) -> bool {
    headers.iter().any(|(name, value)| match name {
        &REFERER => true,
        &USER_AGENT => value.as_bytes().starts_with(b"Mozilla/"),
        name => name.as_str().starts_with("sec-fetch-") && !(name == "sec-fetch-mode" && value == "cors"),
    })
}

fn host_of(origin: &HeaderValue) -> Option<String> {
    Some(origin.to_str().ok()?.parse::<Uri>().ok()?.host()?.to_owned())
}

/// Whether a name or address can only mean the machine that asks.
pub(crate) fn is_local(host: &str) -> bool {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = host.parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for local in ["localhost", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]", "::1"] {
            assert!(is_local(local), "{local}");
        }
        for foreign in ["", "evil.example", "localhost.evil.example", "notlocalhost", "10.0.0.1", "0.0.0.0", "[::2]"] {
            assert!(!is_local(foreign), "{foreign}");
        }
    }
}
