//! Memory under compressed bodies that grow a thousand or a million times, measured.
//!
//! A test binary of its own, because the counting allocator is global; its one test runs alone. (What zstd's C code takes
//! is not counted; its window is bounded by a parameter.)

#![expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]

use std::time::{Duration, Instant};

use async_compression::tokio::write::{GzipEncoder, ZlibEncoder, ZstdEncoder};
use clef_http::ServerConfig;
use peak_alloc::PeakAlloc;
use support::{BODY, Running, config, decision, model, request};
use tokio::io::AsyncWriteExt as _;

#[path = "../../testkit/src/fake.rs"]
#[expect(unreachable_pub, reason = "it is a library's module elsewhere")]
#[expect(dead_code, reason = "other tests use the rest")]
mod fake;
#[path = "http/support.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod support;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MEBIBYTE: usize = 1 << 20;

/// 1 GiB of zeros in one stream, made by Google's brotli at quality 9 with a window of 16 MiB.
const BROTLI_BOMB: &[u8] = include_bytes!("fixtures/zeros-1gib.br");

macro_rules! zeros {
    ($encoder:ident, $bytes:expr) => {{
        let mut encoder = $encoder::new(Vec::new());
        encoder.write_all(&[0].repeat($bytes)).await.unwrap();
        encoder.shutdown().await.unwrap();
        encoder.into_inner()
    }};
}

/// What is done, and the most memory it took at any moment, beside what was there before.
async fn peak_of<T>(work: impl Future<Output = T>) -> (usize, T) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let result = work.await;
    (ALLOCATOR.peak_usage().saturating_sub(before), result)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_whatever_a_body_grows_to() {
    let limit = 16 * MEBIBYTE;
    let server = Running::start(ServerConfig { max_body_bytes: limit, ..config() }).await;
    server.assert_fine().await;

    let member = zeros!(GzipEncoder, 16 * MEBIBYTE);
    let frame = zeros!(ZstdEncoder, 16 * MEBIBYTE);
    let nothing = zeros!(GzipEncoder, 0);
    let bombs = [
        ("gzip", zeros!(GzipEncoder, 64 * MEBIBYTE)),
        ("gzip", member.repeat(64)),
        ("zstd", zeros!(ZstdEncoder, 64 * MEBIBYTE)),
        ("zstd", frame.repeat(64)),
        ("deflate", zeros!(ZlibEncoder, 64 * MEBIBYTE)),
        ("br", BROTLI_BOMB.to_vec()),
        // Never grows, but is itself too much.
        ("gzip", nothing.repeat(limit / nothing.len() + 1)),
    ];
    for (name, bomb) in &bombs {
        let request = request("POST", "/v1/systemone", &[("Content-Encoding", name)], bomb);
        let start = Instant::now();
        let (peak, answer) = peak_of(server.ask(&request)).await;
        assert_eq!(answer.error(413), "request_too_large_error", "{name}");
        // The body so far, room to grow, and windows.
        let bound = 2 * limit + 24 * MEBIBYTE;
        assert!(peak < bound, "{name}: {} bytes became {peak} bytes of memory", bomb.len());
        assert!(start.elapsed() < Duration::from_secs(30), "{name}: {:?}", start.elapsed());
        server.assert_fine().await;
    }

    // A plain body: itself once, and what reading it takes.
    let zeros = vec!["0"; 5 * MEBIBYTE].join(",");
    let body = format!(r#"{{"questions":{{"q":{{"type":"noul"}}}},"state":[{zeros}]}}"#);
    assert!(body.len() < limit);
    let request = decision(&body);
    let (peak, answer) = peak_of(server.ask(&request)).await;
    assert_eq!(answer.status, 200);
    // The fake encoder makes four bytes of each byte of the state, which is not the service's.
    let service = peak.saturating_sub(4 * body.len());
    assert!(service < 4 * body.len(), "a body of {} bytes took {service} bytes", body.len());

    // A picture: once while its record waits for its answer, whatever it took to read it.
    let gate = fake::Gate::default();
    let gated = Running::with(ServerConfig { max_body_bytes: limit, ..config() }, model(8, Some(gate.clone()))).await;
    let picture = "QUJD".repeat(3 * MEBIBYTE);
    let question = r#""questions":{"q":{"type":"noul"}}"#;
    let images = format!(r#"{{"state":"x","images":["data:image/png;base64,{picture}"],{question}}}"#);
    let asset = format!(r#"{{"state":"y","assets":{{"a":{{"part":"asset-0"}}}},{question}}}"#);
    let name = "Content-Disposition: form-data; name";
    let parts = format!(
        "--limit\r\n{name}=request\r\n\r\n{asset}\r\n--limit\r\n{name}=asset-0\r\n\r\n{picture}\r\n--limit--\r\n"
    );
    let form = ("Content-Type", "multipart/form-data; boundary=limit");
    let requests = [("JSON", decision(&images)), ("parts", support::request("POST", "/v1/systemone", &[form], &parts))];
    let size = picture.len();
    drop((picture, images, parts));
    for (index, (name, request)) in requests.iter().enumerate() {
        let mut client = gated.connect().await;
        let before = ALLOCATOR.current_usage();
        let (peak, ()) = peak_of(async {
            client.send(request).await;
            let arrival = gate.clone();
            tokio::task::spawn_blocking(move || arrival.wait_for_arrivals(index + 1)).await.unwrap();
        })
        .await;
        let waiting = ALLOCATOR.current_usage().saturating_sub(before);
        assert!(peak < 4 * size, "{name}: {peak} bytes for a picture of {size}");
        assert!(waiting < size + MEBIBYTE, "{name}: {waiting} bytes for a picture of {size} that waits");
        gate.let_through(1);
        assert_eq!(client.answer().await.status, 200, "{name}");
    }
    gate.open();
    gated.stop().await;

    // Refused before it is read.
    let huge = vec![b'x'; 4 * limit];
    let request = support::request("POST", "/v1/systemone", &[], &huge);
    drop(huge);
    let (peak, answer) = peak_of(server.ask(&request)).await;
    assert_eq!(answer.error(413), "request_too_large_error");
    assert!(peak < 4 * MEBIBYTE, "a refused body took {peak} bytes");
    assert_eq!(server.decide(BODY, &[]).await.status, 200);
    server.stop().await;
}
