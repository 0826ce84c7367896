//! Bodies: too large, compressed, in parts, many at once.

use async_compression::tokio::write::{BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder};
use clef_http::ServerConfig;
use tokio::io::AsyncWriteExt as _;

use crate::fake::Gate;
use crate::support::{BODY, Running, config, decision, eventually, get, model, request};

/// A valid request with a state of `bytes` letters.
fn large(bytes: usize) -> String {
    format!(r#"{{"state":"{}","questions":{{"q":{{"type":"noul"}}}}}}"#, "x".repeat(bytes))
}

macro_rules! compressed {
    ($encoder:ident, $bytes:expr) => {{
        let mut encoder = $encoder::new(Vec::new());
        encoder.write_all($bytes.as_ref()).await.unwrap();
        encoder.shutdown().await.unwrap();
        encoder.into_inner()
    }};
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_over_the_limit_is_refused_so_that_the_client_reads_it() {
    let limit = 1 << 20;
    let server = Running::start(ServerConfig { max_body_bytes: limit, ..config() }).await;
    let exact = large(limit - large(0).len());
    assert_eq!(exact.len(), limit);
    let answer = server.decide(&exact, &[]).await;
    assert_eq!(answer.status, 200);

    // The client sends everything before it looks at the answer, as most do.
    let mut client = server.connect().await;
    for bytes in [limit + 1, 2 * limit] {
        client.send(decision("x".repeat(bytes))).await;
        let answer = client.answer().await;
        assert_eq!(answer.error(413), "request_too_large_error");
        assert_eq!(answer.header("retry-after"), None);
        assert!(answer.text().contains("1048576 bytes"), "{}", answer.text());
    }
    client.send(decision(BODY)).await;
    assert_eq!(client.answer().await.status, 200, "the connection lives on");

    // Without a length, the first byte over the limit is one too many.
    let mut client = server.connect().await;
    client.send("POST /v1/systemone HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 16, "x".repeat(1 << 16));
    client.send(chunk.repeat(17)).await;
    assert_eq!(client.answer().await.error(413), "request_too_large_error");
    client.send("0\r\n\r\n").await;
    client.send(decision(BODY)).await;
    assert_eq!(client.answer().await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_refuses_a_large_body_is_readable() {
    let key = clef_http::ApiKey::new("k").unwrap();
    let config = ServerConfig { api_keys: vec![key], max_body_bytes: 64 << 20, ..config() };
    let server = Running::start(config).await;
    let body = "x".repeat(63 << 20);
    let key = ("X-Api-Key", "k");
    for (path, headers, status) in [
        ("/v1/systemone", &[][..], 401),
        ("/nowhere", &[key], 404),
        ("/v1/systemone", &[key, ("Origin", "https://evil.example")], 403),
        ("/v1/systemone", &[key, ("Content-Encoding", "lzma")], 415),
        ("/tokenize", &[key], 413),
        ("/v1/systemone", &[key], 422),
    ] {
        let answer = server.ask(request("POST", path, headers, &body)).await;
        answer.error(status);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declared_length_over_the_limit_is_refused_before_it_is_sent() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    client.send("POST /v1/systemone HTTP/1.1\r\nHost: localhost\r\nContent-Length: 104857601\r\n\r\n").await;
    assert_eq!(client.answer().await.error(413), "request_too_large_error");
    drop(client);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_bodies_are_read() {
    let server = Running::start(config()).await;
    for body in [BODY.to_owned(), large(3 << 20)] {
        let encoded = [
            ("zstd", compressed!(ZstdEncoder, &body)),
            ("gzip", compressed!(GzipEncoder, &body)),
            ("x-gzip", compressed!(GzipEncoder, &body)),
            ("br", compressed!(BrotliEncoder, &body)),
            ("deflate", compressed!(ZlibEncoder, &body)),
            ("deflate", compressed!(DeflateEncoder, &body)),
            ("identity", body.clone().into_bytes()),
            ("GZip", compressed!(GzipEncoder, &body)),
            ("identity, zstd", compressed!(ZstdEncoder, &body)),
        ];
        for (name, encoded) in &encoded {
            let answer = server.decide(encoded, &[("Content-Encoding", name)]).await;
            assert_eq!(answer.status, 200, "{name}: {answer:?}");
            let more = body.len() - BODY.len();
            assert_eq!(answer.json()["usage"]["input_tokens"], 10 + more, "{name}");
        }
        // Several members or frames are one text.
        let (start, end) = body.split_at(body.len() / 2);
        for (name, members) in [
            ("gzip", [compressed!(GzipEncoder, start), compressed!(GzipEncoder, end)]),
            ("zstd", [compressed!(ZstdEncoder, start), compressed!(ZstdEncoder, end)]),
        ] {
            let answer = server.decide(members.concat(), &[("Content-Encoding", name)]).await;
            assert_eq!(answer.status, 200, "{name}: {answer:?}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_encodings_are_the_clients_fault() {
    let server = Running::start(config()).await;
    let zipped = compressed!(GzipEncoder, BODY);
    for name in ["lzma", "snappy", "gzip, gzip", "gzip,zstd", "zstd, br, gzip", "*", "\u{fc}", "gzip;q=1"] {
        let answer = server.decide(&zipped, &[("Content-Encoding", name)]).await;
        assert_eq!(answer.error(415), "unsupported_media_type_error", "{name}");
        assert_eq!(answer.header("accept-encoding"), Some("zstd, gzip, br, deflate, identity"));
    }
    let answer = server
        .ask(request("POST", "/v1/systemone", &[("Content-Encoding", "gzip"), ("Content-Encoding", "br")], ""))
        .await;
    answer.error(415);

    for (name, whole) in [
        ("gzip", zipped.clone()),
        ("zstd", compressed!(ZstdEncoder, BODY)),
        ("br", compressed!(BrotliEncoder, BODY)),
        ("deflate", compressed!(ZlibEncoder, BODY)),
        ("deflate", compressed!(DeflateEncoder, BODY)),
    ] {
        for bad in [BODY.as_bytes(), b"", b"\0", &whole[..whole.len() / 2], &whole[..whole.len() - 1], &whole[1..]] {
            let answer = server.decide(bad, &[("Content-Encoding", name)]).await;
            assert!(matches!(answer.status, 422 | 200), "{name} {bad:?}: {answer:?}");
            if answer.status == 422 {
                assert_eq!(answer.slug(422), "json_invalid");
            } else {
                assert!(whole.starts_with(bad) && bad.len() + 1 == whole.len(), "{name}: {bad:?} was read");
            }
        }
    }
    // A window that the format does not have, though some decoders do.
    assert_eq!(server.decide([0x11, 0x1e, 0, 0], &[("Content-Encoding", "br")]).await.slug(422), "json_invalid");
    // Compressed data under no name is just no JSON.
    assert_eq!(server.decide(&zipped, &[]).await.slug(422), "json_invalid");
    server.assert_fine().await;
    server.stop().await;
}

/// A body of parts, with the boundary `limit`.
pub(crate) fn multipart(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, content) in parts {
        body.extend_from_slice(b"--limit\r\n");
        body.extend_from_slice(format!("Content-Disposition: form-data; name=\"{name}\"\r\n\r\n").as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--limit--\r\n");
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multipart_body_holds_the_request_as_a_part() {
    let server = Running::start(config()).await;
    let form = ("Content-Type", "multipart/form-data; boundary=limit");
    let body = BODY.as_bytes();
    let answer = server.decide(multipart(&[("request", body)]), &[form]).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let zipped = compressed!(ZstdEncoder, multipart(&[("request", large(1 << 20).as_bytes())]));
    let answer = server.decide(zipped, &[form, ("Content-Encoding", "zstd")]).await;
    assert_eq!(answer.status, 200, "{answer:?}");

    let none = multipart(&[]);
    for (parts, slug) in [
        (&[("other", body)][..], "missing"),
        (&[("request", b"{")], "json_invalid"),
        (&[("request", b"{}")], "missing"),
        (&[("request", body), ("request", body)], "duplicate_key"),
        (&[("request", body), ("asset-0", b"x")], "extra_forbidden"),
        (&[("x", &b""[..]); 2], "duplicate_key"),
        (&["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(|name| (name, &b""[..])), "too_long"),
    ] {
        assert_eq!(server.decide(multipart(parts), &[form]).await.slug(422), slug, "{parts:?}");
    }
    let whole = multipart(&[("request", body)]);
    for bad in [&none[..], b"", b"--limit", BODY.as_bytes(), &whole[..whole.len() - 9], &whole[3..]] {
        server.decide(bad, &[form]).await.error(422);
    }
    // Without a boundary it is no multipart body; JSON is JSON under any name.
    for name in ["multipart/form-data", "application/x-www-form-urlencoded", "text/plain", "nonsense", ""] {
        assert_eq!(server.decide(BODY, &[("Content-Type", name)]).await.status, 200, "{name}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_in_flight_are_capped_together_and_small_ones_always_pass() {
    let gate = Gate::default();
    let config = ServerConfig { max_bodies_bytes_in_flight: 3 << 20, ..config() };
    let server = Running::with(config, model(256, Some(gate.clone()))).await;
    let body = large(1 << 20);
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut client = server.connect().await;
        client.send(decision(&body)).await;
        waiting.push(client);
    }
    let stuck = gate.clone();
    tokio::task::spawn_blocking(move || stuck.wait_for_arrivals(1)).await.unwrap();
    // One is evaluated, all three are in memory.
    let handle = server.handle.clone();
    eventually("reading three bodies", || handle.body_bytes() > 2 << 20).await;
    let answer = server.decide(&body, &[]).await;
    assert_eq!(answer.error(429), "rate_limit_error");
    assert_eq!(answer.header("retry-after"), Some("1"));
    let mut small = server.connect().await;
    small.send(decision(BODY)).await;
    gate.open();
    assert_eq!(small.answer().await.status, 200);
    for client in &mut waiting {
        assert_eq!(client.answer().await.status, 200);
    }
    assert_eq!(server.decide(&body, &[]).await.status, 200);
    assert_eq!(server.ask(get("/health")).await.status, 200);
    server.stop().await;
}
