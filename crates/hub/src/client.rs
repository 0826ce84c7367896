//! Requests: one at a time, redirects followed by hand, the token shown to nobody but the hub.
//!
//! Redirects are followed here and not by the HTTP library for two reasons. What the hub says of a file (its checksum,
//! its size) stands on the redirect, not on the answer of the host that it leads to. And the token goes to the endpoint
//! that was set up and to no other host, port or scheme, whatever leads there.

use std::io::{self, Read};
use std::sync::OnceLock;
use std::time::Duration;

use ureq::Agent;
use ureq::http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, TRANSFER_ENCODING,
};
use ureq::http::{HeaderMap, HeaderName, Method, Request};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::error::{Error, ErrorKind, Result};
use crate::options::{HubOptions, Proxies, Timeouts, Token};
use crate::text::Foreign;
use crate::url::{Origin, Url};

/// How many hosts may pass a request on.
const MAX_REDIRECTS: usize = 10;

/// The longest status line and headers of a response. Signed addresses take a few kilobytes.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// How requests are made, shared by all threads.
#[derive(Debug)]
pub(crate) struct Client {
    plain: Agent,
    plain_proxy: Option<ureq::Proxy>,
    /// Made when first needed: reading the system's certificates takes a while.
    secure: OnceLock<Agent>,
    secure_proxy: Option<ureq::Proxy>,
    timeouts: Timeouts,
    user_agent: String,
    token: Option<Token>,
    token_origin: Origin,
}

/// What is asked for.
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a Url,
    pub(crate) headers: Vec<(HeaderName, String)>,
}

/// What a hub says of a file before it passes the request on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Linked {
    /// `X-Linked-Etag`, without quotes: the SHA-256 of a large file.
    pub(crate) etag: Option<String>,
    /// `X-Linked-Size`, in bytes.
    pub(crate) size: Option<u64>,
}

/// The response of the last host, with what those before it said.
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) linked: Linked,
    pub(crate) had_token: bool,
    /// Who answered.
    pub(crate) host: String,
    /// Whether that is another than the one who was asked.
    pub(crate) is_passed_on: bool,
    body: ureq::BodyReader<'static>,
}

impl Client {
    pub(crate) fn new(options: &HubOptions, endpoint: &Url) -> Result<Self> {
        if options.user_agent.is_empty() || !options.user_agent.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            let message = format!("the user agent {:?} is not visible ASCII", options.user_agent);
            return Err(Error::new(ErrorKind::InvalidRequest, message));
        }
        // A proxy that makes no sense keeps nobody from what is there.
        let address_of = |address: &'_ Option<String>| address.clone().filter(|_| !options.offline);
        let plain_proxy = proxy(address_of(&options.proxies.http).as_deref(), &options.proxies)?;
        let secure_proxy = proxy(address_of(&options.proxies.https).as_deref(), &options.proxies)?;
        Ok(Self {
            plain: agent(plain_proxy.clone(), &options.timeouts, &options.user_agent, RootCerts::WebPki),
            plain_proxy,
            secure: OnceLock::new(),
            secure_proxy,
            timeouts: options.timeouts,
            user_agent: options.user_agent.clone(),
            token: options.token.clone(),
            token_origin: endpoint.origin(),
        })
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// Sends a request, and follows redirects. A `HEAD` is not passed on to another host by one that has said what the
    /// file is called: signed addresses are often good for nothing but fetching.
    ///
    /// # Errors
    /// If there is no response, or redirects lead nowhere. A status that says no is a response.
    pub(crate) fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse> {
        let mut url = request.url.clone();
        let mut linked = Linked::default();
        for _ in 0..=MAX_REDIRECTS {
            let token = self.token.as_ref().filter(|_| url.origin() == self.token_origin);
            let response = self.send_once(request, &url, token)?;
            linked.gather(response.headers());
            let status = response.status().as_u16();
            let target = matches!(status, 301 | 302 | 303 | 307 | 308)
                .then(|| response.headers().get(LOCATION).and_then(|location| location.to_str().ok()))
                .flatten()
                .map(|location| redirect(&url, location))
                .transpose()?;
            let is_answered = |target: &Url| {
                request.method == Method::HEAD && linked.etag.is_some() && target.origin() != url.origin()
            };
            match target {
                Some(target) if !is_answered(&target) => url = target,
                _ => {
                    let (parts, body) = response.into_parts();
                    return Ok(HttpResponse {
                        status,
                        headers: parts.headers,
                        linked,
                        had_token: token.is_some(),
                        host: url.host().to_owned(),
                        is_passed_on: url.origin() != request.url.origin(),
                        body: body.into_reader(),
                    });
                }
            }
        }
        let message = format!("{} is redirected more than {MAX_REDIRECTS} times", request.url);
        Err(Error::new(ErrorKind::Protocol, message))
    }

    fn send_once(
        &self,
        request: &HttpRequest<'_>,
        url: &Url,
        token: Option<&Token>,
    ) -> Result<ureq::http::Response<ureq::Body>> {
        let mut whole = Request::builder().method(request.method.clone()).uri(url.uri().clone());
        // Lengths and ranges are to be those of the file.
        whole = whole.header(ACCEPT_ENCODING, "identity");
        for (name, value) in &request.headers {
            whole = whole.header(name, value);
        }
        if let Some(token) = token {
            whole = whole.header(AUTHORIZATION, token.header_value());
        }
        let whole = whole.body(()).map_err(|error| {
            Error::new(ErrorKind::InvalidRequest, format_args!("{url} cannot be asked for: {error}"))
        })?;
        self.agent(url).run(whole).map_err(|error| no_response(url, error, &self.timeouts, self.proxy_to(url)))
    }

    /// Who stands between.
    fn proxy_to(&self, url: &Url) -> Option<&ureq::Proxy> {
        let proxy = if url.is_secure() { &self.secure_proxy } else { &self.plain_proxy };
        proxy.as_ref().filter(|proxy| !proxy.is_no_proxy(url.uri()))
    }

    fn agent(&self, url: &Url) -> &Agent {
        if !url.is_secure() {
            return &self.plain;
        }
        self.secure
            .get_or_init(|| agent(self.secure_proxy.clone(), &self.timeouts, &self.user_agent, root_certificates()))
    }
}

impl Linked {
    fn gather(&mut self, headers: &HeaderMap) {
        if let Some(etag) = header(headers, "x-linked-etag") {
            self.etag = Some(bare_etag(etag).to_owned());
        }
        if let Some(size) = header(headers, "x-linked-size").and_then(|size| size.parse().ok()) {
            self.size = Some(size);
        }
    }
}

impl HttpResponse {
    /// A header, if it is there and ASCII.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// How many bytes the body has, if that is said.
    pub(crate) fn content_length(&self) -> Option<u64> {
        header(&self.headers, CONTENT_LENGTH.as_str())?.trim().parse().ok()
    }

    /// Whether the end of the body can be told from a connection that broke.
    pub(crate) fn has_an_end(&self) -> bool {
        let coding = header(&self.headers, TRANSFER_ENCODING.as_str()).unwrap_or("");
        self.content_length().is_some() || coding.to_ascii_lowercase().contains("chunked")
    }

    /// Whether it is a page for people.
    pub(crate) fn is_page(&self) -> bool {
        self.header(CONTENT_TYPE.as_str()).is_some_and(|kind| kind.trim().to_ascii_lowercase().starts_with("text/html"))
    }

    /// The coding of the body, if it is not sent as it is.
    pub(crate) fn content_encoding(&self) -> Option<&str> {
        header(&self.headers, CONTENT_ENCODING.as_str()).filter(|coding| !coding.eq_ignore_ascii_case("identity"))
    }

    /// How long to stay away. A date is not read: it needs a clock that is right.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.header("retry-after")?.trim().parse().ok().map(Duration::from_secs)
    }

    /// The body's next bytes; none at its end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.body.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

/// An entity tag without its quotes and without the mark of a weak one, as `huggingface_hub` names blobs.
pub(crate) fn bare_etag(etag: &str) -> &str {
    let etag = etag.trim();
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"')
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn redirect(from: &Url, location: &str) -> Result<Url> {
    let target = from.join(location).map_err(|error| {
        Error::new(ErrorKind::Protocol, format_args!("{from} is redirected to where nothing can be: {error}"))
    })?;
    if from.is_secure() && !target.is_secure() {
        let why = "which is not encrypted while the address asked for is; that is not followed";
        return Err(Error::new(ErrorKind::Protocol, format_args!("{from} is redirected to {target}, {why}")));
    }
    Ok(target)
}

fn proxy(address: Option<&str>, proxies: &Proxies) -> Result<Option<ureq::Proxy>> {
    let Some(address) = address else {
        return Ok(None);
    };
    // The address is not repeated: it may hold a password.
    let advice = "check https_proxy, http_proxy and all_proxy";
    let invalid = |error: ureq::Error| {
        let fault = format!("the proxy's address is not understood: {}", Foreign(&error.to_string()));
        Error::new(ErrorKind::InvalidRequest, fault).with_advice(advice)
    };
    let parsed = ureq::Proxy::new(address).map_err(invalid)?;
    // Not built in, and the HTTP library would end the process over it.
    if !matches!(parsed.protocol(), ureq::ProxyProtocol::Http | ureq::ProxyProtocol::Https) {
        let fault = format!("the proxy {} speaks SOCKS, and only HTTP is spoken here", name_of(&parsed));
        return Err(Error::new(ErrorKind::InvalidRequest, fault).with_advice(advice));
    }
    let mut builder = ureq::Proxy::builder(parsed.protocol()).host(parsed.host()).port(parsed.port());
    if let Some(username) = parsed.username() {
        builder = builder.username(username);
    }
    if let Some(password) = parsed.password() {
        builder = builder.password(password);
    }
    for entry in &proxies.exceptions {
        builder = builder.no_proxy(entry);
    }
    builder.build().map(Some).map_err(invalid)
}

fn agent(proxy: Option<ureq::Proxy>, timeouts: &Timeouts, user_agent: &str, root_certs: RootCerts) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_response_header_size(MAX_HEADER_BYTES)
        // A connection that lay idle may be closed on the other side, and fails only when it is used again.
        .max_idle_connections(0)
        .proxy(proxy)
        .user_agent(user_agent)
        .timeout_resolve(Some(timeouts.connect))
        .timeout_connect(Some(timeouts.connect))
        .timeout_recv_response(Some(timeouts.response))
        .timeout_per_read(Some(timeouts.stall))
        .timeout_per_write(Some(timeouts.stall))
        .tls_config(TlsConfig::builder().root_certs(root_certs).build())
        .build()
        .into()
}

/// The system's certificates, among them those of a company's own proxy; Mozilla's where there are none, as in a bare
/// container.
fn root_certificates() -> RootCerts {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!("a certificate of the system is left out: {error}");
    }
    if found.certs.is_empty() {
        return RootCerts::WebPki;
    }
    found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect::<Vec<_>>().into()
}

/// A proxy without what is secret about it.
fn name_of(proxy: &ureq::Proxy) -> String {
    format!("{}:{}", proxy.host(), proxy.port())
}

/// Why there is no response.
fn no_response(url: &Url, error: ureq::Error, timeouts: &Timeouts, proxy: Option<&ureq::Proxy>) -> Error {
    let host = url.host();
    let advice = match proxy {
        Some(_) if url.is_secure() => "check the network and the proxy (https_proxy, all_proxy)",
        Some(_) => "check the network and the proxy (http_proxy, all_proxy)",
        None => "check the network (and set https_proxy if it has a proxy)",
    };
    let unreachable = |fault: &str, why: &str| {
        Error::new(ErrorKind::Unreachable, format_args!("{fault}: {}", Foreign(why))).with_advice(advice)
    };
    let (nobody, not_host) = match proxy.map(name_of) {
        Some(proxy) => (
            format!("the proxy {proxy} cannot be reached"),
            format!("{host} cannot be reached through the proxy {proxy}"),
        ),
        None => (format!("{host} cannot be reached"), format!("{host} cannot be reached")),
    };
    match error {
        ureq::Error::HostNotFound => unreachable(&nobody, "no such host, or no network").transient(),
        ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
            let why = format!("no connection within {} s", timeouts.connect.as_secs_f64());
            unreachable(&not_host, &why).transient()
        }
        ureq::Error::Timeout(_) => {
            let fault = format!("{url} is not answered within {} s", timeouts.response.as_secs_f64());
            Error::new(ErrorKind::Interrupted, fault).transient()
        }
        ureq::Error::Io(cause) if is_about_certificates(&cause) => {
            let fault = format!("{host} is not trusted: {}", Foreign(&cause.to_string()));
            let advice = "if a proxy of your own stands between, name its certificates with SSL_CERT_FILE";
            Error::new(ErrorKind::Unreachable, fault).with_source(cause).with_advice(advice)
        }
        ureq::Error::Io(cause) => {
            let fault = if is_about_connecting(&cause) { nobody } else { not_host };
            unreachable(&fault, &cause.to_string()).with_source(cause).transient()
        }
        ureq::Error::ConnectProxyFailed(why) if proxy.is_some() => {
            // "407/407", as the library puts a status.
            let why = why.split_once('/').map_or(why.as_str(), |(why, _)| why);
            unreachable(&not_host, why).transient()
        }
        error @ (ureq::Error::ConnectionFailed | ureq::Error::ConnectProxyFailed(_) | ureq::Error::Tls(_)) => {
            unreachable(&not_host, &error.to_string()).transient()
        }
        ureq::Error::LargeResponseHeader(_, limit) => {
            Error::new(ErrorKind::Protocol, format_args!("{url} is answered with headers of more than {limit} bytes"))
        }
        error => {
            let why = error.to_string();
            Error::new(ErrorKind::Protocol, format_args!("{url} is not answered in HTTP: {}", Foreign(&why)))
        }
    }
}

/// Whether there was no connection at all, so that it is known who could not be reached.
fn is_about_connecting(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable};
    matches!(error.kind(), AddrNotAvailable | ConnectionRefused | HostUnreachable | NetworkDown | NetworkUnreachable)
}

/// Whether a connection failed for a reason that stays: TLS is spoken, and the other side is not who it should be.
fn is_about_certificates(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData && error.to_string().to_ascii_lowercase().contains("certificate")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests {
    use super::*;

    #[test]
    fn entity_tags_are_compared_without_their_dress() {
        for (etag, bare) in [("\"abc\"", "abc"), ("W/\"abc\"", "abc"), ("abc", "abc"), ("\"\"", ""), ("", "")] {
            assert_eq!(bare_etag(etag), bare);
        }
    }

    #[test]
    fn an_encrypted_address_is_not_left_for_one_that_is_not() {
        let secure = Url::parse("https://host/a").unwrap();
        assert_eq!(redirect(&secure, "https://other/b").unwrap().identity(), "https://other/b");
        let error = redirect(&secure, "http://host/b?signature=secret").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.message().contains("http://host/b") && !error.message().contains("secret"), "{error}");
        assert!(redirect(&Url::parse("http://host/a").unwrap(), "https://host/b").is_ok());
    }
}
