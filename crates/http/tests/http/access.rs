//! Who may ask what, and when.

use clef_http::{ApiKey, Cors, Listen, ServerConfig};

use crate::support::{BODY, ROUTES, Running, config, get, model, request};

fn with_key() -> ServerConfig {
    ServerConfig { api_keys: vec![ApiKey::new("right").unwrap(), ApiKey::new("also").unwrap()], ..config() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_loading_every_route_says_so_before_the_key_is_looked_at() {
    for config in [config(), with_key()] {
        let server = Running::loading(config).await;
        let more = [("GET", "/"), ("GET", "/nowhere"), ("PUT", "/health"), ("GET", "/v1/systemone"), ("OPTIONS", "/")];
        for (method, path) in ROUTES.into_iter().chain(more) {
            for key in [&[][..], &[("Authorization", "Bearer wrong")], &[("Authorization", "Bearer right")]] {
                let answer = server.ask(request(method, path, key, BODY)).await;
                assert_eq!(answer.error(503), "unavailable_error", "{method} {path}");
                let error = &answer.json()["error"];
                assert_eq!(error["message"], "Loading model");
                assert_eq!(answer.header("retry-after"), Some("1"));
            }
        }
        server.handle.set_model(model(8, None));
        assert_eq!(server.ask(get("/health")).await.status, 200);
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_needed_on_every_route_but_health() {
    let server = Running::start(ServerConfig { metrics: true, props: true, ..with_key() }).await;
    let unknown = [("GET", "/nowhere"), ("DELETE", "/v1/systemone"), ("OPTIONS", "/v1/systemone")];
    for (method, path) in ROUTES.into_iter().chain(unknown) {
        let is_health = path.ends_with("health");
        for wrong in [
            &[][..],
            &[("Authorization", "Bearer wrong")],
            &[("Authorization", "Bearer rightx")],
            &[("Authorization", "Bearer righ")],
            &[("Authorization", "Basic right")],
            &[("X-Api-Key", "wrong")],
        ] {
            // A body that is wrong in itself, too large, or badly compressed: the key comes first.
            let answer = server.ask(request(method, path, wrong, "{")).await;
            if is_health {
                assert_eq!(answer.status, 200, "{method} {path}");
            } else {
                assert_eq!(answer.error(401), "authentication_error", "{method} {path} {wrong:?}");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            }
        }
        for right in [
            ("Authorization", "Bearer right"),
            ("Authorization", "bearer also"),
            ("Authorization", "right"),
            ("X-Api-Key", "also"),
        ] {
            let answer = server.ask(request(method, path, &[right], BODY)).await;
            assert_ne!(answer.status, 401, "{method} {path} {right:?}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_keys_any_key_passes() {
    let server = Running::start(config()).await;
    let answer = server.decide(BODY, &[("Authorization", "Bearer whatever")]).await;
    assert_eq!(answer.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_paths_and_wrong_methods_are_not_found() {
    let server = Running::start(config()).await;
    let mut wrong = vec![("GET", "/"), ("GET", "/v1"), ("GET", "/health/"), ("GET", "//health"), ("GET", "/HEALTH")];
    wrong.extend([("GET", "/v1/systemone"), ("PUT", "/v1/systemone"), ("POST", "/health"), ("DELETE", "/slots")]);
    wrong.extend([("PATCH", "/props"), ("OPTIONS", "/v1/systemone"), ("GET", "/tokenize"), ("BREW", "/health")]);
    wrong.extend([("GET", "/v1/../health"), ("GET", "/%68ealth"), ("POST", "/v1/chat/completions")]);
    for (method, path) in wrong {
        let answer = server.ask(request(method, path, &[], "")).await;
        assert_eq!(answer.error(404), "not_found_error", "{method} {path}");
        assert_eq!(answer.json()["error"]["message"], "File Not Found");
    }
    for path in ["/health?x=1", "/v1/models?", "http://localhost/health"] {
        assert_eq!(server.ask(get(path)).await.status, 200, "{path}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_stands_before_every_path() {
    let config = ServerConfig { api_prefix: "clef/".to_owned(), metrics: true, props: true, ..config() };
    let server = Running::start(config).await;
    for (method, path) in ROUTES {
        let answer = server.ask(request(method, path, &[], BODY)).await;
        answer.error(404);
        let answer = server.ask(request(method, &format!("/clef{path}"), &[], BODY)).await;
        assert_ne!(answer.status, 404, "{path}");
        let answer = server.ask(request(method, &format!("/clefs{path}"), &[], BODY)).await;
        answer.error(404);
    }
    server.stop().await;
}

/// Headers that browsers send, and whether a server on this machine listens to them.
const BROWSERS: [(&[(&str, &str)], bool); 33] = [
    (&[("Origin", "https://evil.example")], false),
    (&[("Origin", "https://localhost.evil.example")], false),
    (&[("Origin", "http://10.0.0.1:8080")], false),
    (&[("Origin", "null")], false),
    (&[("Origin", "")], false),
    (&[("Origin", "chrome-extension://abcdef")], false),
    (&[("Origin", "http://localhost:3000"), ("Origin", "https://evil.example")], false),
    (&[("Origin", "http://localhost")], true),
    (&[("Origin", "http://localhost:3000")], true),
    (&[("Origin", "http://127.0.0.1:3000")], true),
    (&[("Origin", "http://[::1]:3000")], true),
    (&[("Sec-Fetch-Site", "same-origin"), ("Host", "evil.example")], false),
    (&[("Sec-Fetch-Mode", "navigate"), ("Host", "evil.example:8080")], false),
    (&[("Sec-Fetch-Dest", "empty"), ("Host", "127.0.0.1.evil.example")], false),
    (&[("Sec-Fetch-Site", "none"), ("Host", "localhost:8080")], true),
    (&[("Sec-Fetch-Site", "none"), ("Host", "127.0.0.1:8080")], true),
    (&[("Sec-Fetch-Site", "none"), ("Host", "[::1]:8080")], true),
    // A plain GET after DNS rebinding: no origin, and nothing about fetching for a name without TLS.
    (&[("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"), ("Host", "evil.example:8080")], false),
    (&[("Referer", "http://evil.example:8080/"), ("Host", "evil.example:8080")], false),
    (&[("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"), ("Host", "localhost:8080")], true),
    (&[("User-Agent", "Mozilla/5.0 (Macintosh)"), ("Referer", "http://127.0.0.1:8080/"), ("Host", "127.0.0.1")], true),
    // Images and links of foreign pages have no origin.
    (&[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors"), ("Host", "127.0.0.1:8080")], false),
    (&[("Sec-Fetch-Site", "cross-site")], false),
    (&[("Sec-Fetch-Site", "cross-site"), ("Origin", "http://127.0.0.1:3000")], true),
    (&[("Sec-Fetch-Site", "same-site"), ("Host", "localhost:8080")], true),
    (&[("Sec-Fetch-Site", "same-origin"), ("Host", "localhost:8080")], true),
    // Programs say what they are.
    (&[("Host", "my-machine:8080"), ("User-Agent", "curl/8.5.0")], true),
    (&[("Host", "my-machine:8080"), ("User-Agent", "python-requests/2.32.3")], true),
    (&[("Host", "my-machine:8080"), ("User-Agent", "node"), ("Sec-Fetch-Mode", "cors")], true),
    (&[("Host", "my-machine:8080"), ("User-Agent", "")], true),
    // No browsers: a name in /etc/hosts, a container's name, Node's fetch.
    (&[("Host", "my-machine:8080")], true),
    (&[("Host", "host.docker.internal")], true),
    (&[("Host", "my-machine"), ("Sec-Fetch-Mode", "cors")], true),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_this_machine_foreign_pages_are_refused_and_programs_are_not() {
    let server = Running::start(ServerConfig { metrics: true, props: true, ..config() }).await;
    for (headers, is_admitted) in BROWSERS {
        for (method, path) in ROUTES {
            let answer = server.ask(request(method, path, headers, BODY)).await;
            if is_admitted {
                assert_ne!(answer.status, 403, "{method} {path} {headers:?}");
            } else {
                assert_eq!(answer.error(403), "permission_error", "{method} {path} {headers:?}");
            }
            assert!(answer.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{answer:?}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_network_browsers_are_left_alone() {
    let server = Running::start(ServerConfig { listen: Listen::new("0.0.0.0", 0), ..config() }).await;
    for (headers, _) in BROWSERS {
        let answer = server.decide(BODY, headers).await;
        assert_eq!(answer.status, 200, "{headers:?}");
        assert!(answer.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{answer:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_cors_admitted_pages_may_call_and_read() {
    let origins = ["https://app.example", "http://localhost:3000/"].map(str::to_owned);
    let config = ServerConfig { cors: Some(Cors::for_origins(origins)), ..with_key() };
    let server = Running::loading(config).await;
    let preflight = |origin| {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "authorization,content-type"),
        ];
        request("OPTIONS", "/v1/systemone", &headers, "")
    };
    // Preflights carry no key, and are answered while the model loads.
    let answer = server.ask(preflight("https://app.example")).await;
    assert_eq!((answer.status, answer.text()), (200, ""));
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(answer.header("access-control-allow-credentials"), Some("true"));
    assert_eq!(answer.header("access-control-allow-methods"), Some("GET, POST, DELETE, OPTIONS"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization,content-type"));
    assert_eq!(answer.header("vary"), Some("origin"));
    let answer = server.ask(preflight("https://evil.example")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{answer:?}");

    // Errors must be readable as well.
    let origin = ("Origin", "https://app.example");
    let answer = server.decide(BODY, &[origin]).await;
    answer.error(503);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    server.handle.set_model(model(8, None));
    let answer = server.decide(BODY, &[origin]).await;
    answer.error(401);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));

    let key = ("Authorization", "Bearer right");
    let answer = server.decide(BODY, &[key, origin, ("Sec-Fetch-Site", "cross-site")]).await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("access-control-expose-headers").unwrap().contains("x-typesafe-request-id"));
    let answer = server.decide(BODY, &[key, ("Origin", "http://localhost:3000")]).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://localhost:3000"));
    server.decide(BODY, &[key, ("Origin", "https://evil.example")]).await.error(403);
    server.decide(BODY, &[key, ("Sec-Fetch-Site", "cross-site")]).await.error(403);
    let answer = server.decide(BODY, &[key]).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cors_for_all_echoes_and_cors_for_this_machine_looks() {
    for (origins, origin, is_admitted) in [
        ("*", "https://any.example", true),
        ("*", "null", true),
        ("localhost", "http://localhost:1234", true),
        ("localhost", "http://127.0.0.1", true),
        ("localhost", "https://any.example", false),
    ] {
        let config = ServerConfig {
            listen: Listen::new("0.0.0.0", 0),
            cors: Some(Cors { credentials: false, ..Cors::for_origins([origins.to_owned()]) }),
            ..config()
        };
        let server = Running::start(config).await;
        let answer = server.decide(BODY, &[("Origin", origin)]).await;
        assert_eq!(answer.status, 200);
        let echoed = answer.header("access-control-allow-origin");
        assert_eq!(echoed, is_admitted.then_some(origin), "{origins} {origin}");
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        server.stop().await;
    }
}
