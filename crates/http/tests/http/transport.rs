//! What lies under HTTP: Unix sockets, TLS, ports that are shared.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;

use clef_http::{Ended, Listen, LocalAddress, ServeError, Server, ServerConfig, TlsFiles};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::support::{BODY, Client, Running, config, decision, get, model};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unix_socket_is_served_and_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clef.sock");
    let config = ServerConfig { listen: Listen::new(path.to_str().unwrap(), 8080), ..config() };
    // What a server left that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = Server::bind(config.clone()).await.unwrap();
    assert_eq!(server.local_address(), &LocalAddress::Unix(path.clone()));
    assert_eq!(server.local_addr(), None);
    let handle = server.handle();
    let task = tokio::spawn(server.run());
    handle.set_model(model(8, None));
    let mut client = Client::new(UnixStream::connect(&path).await.unwrap());
    client.send(decision(BODY)).await;
    assert_eq!(client.answer().await.status, 200);
    // A socket that is served is not taken from its server.
    assert!(matches!(Server::bind(config).await, Err(ServeError::Bind { .. })));
    handle.shutdown();
    assert_eq!(task.await.unwrap().unwrap(), Ended::Shutdown);
    client.closed().await;
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_socket_is_never_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("file.sock"), "precious").unwrap();
    std::fs::create_dir(at("folder.sock")).unwrap();
    // Links to a file, to nothing, and to what a killed server left.
    drop(std::os::unix::net::UnixListener::bind(at("dead")).unwrap());
    for (target, link) in [("file.sock", "link.sock"), ("nothing", "dangling.sock"), ("dead", "indirect.sock")] {
        std::os::unix::fs::symlink(at(target), at(link)).unwrap();
    }
    let fifo = std::process::Command::new("mkfifo").arg(at("fifo.sock")).status().unwrap();
    assert!(fifo.success());
    for name in ["file.sock", "folder.sock", "link.sock", "dangling.sock", "indirect.sock", "fifo.sock"] {
        let path = at(name);
        let listen = Listen::new(path.to_str().unwrap(), 8080);
        let before = std::fs::symlink_metadata(&path).unwrap();
        let error = Server::bind(ServerConfig { listen, ..config() }).await.unwrap_err();
        let path_shown = path.display();
        let expected = format!("cannot listen on {path_shown}: {path_shown} is there and is no socket");
        assert_eq!(error.to_string(), expected);
        let after = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!((after.ino(), after.file_type()), (before.ino(), before.file_type()), "{name}");
    }
    assert_eq!(std::fs::read_to_string(at("file.sock")).unwrap(), "precious");
    assert!(at("dead").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_come_in_place_of_a_socket_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clef.sock");
    let config = ServerConfig { listen: Listen::new(path.to_str().unwrap(), 8080), ..config() };
    let first = Server::bind(config.clone()).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let second = Server::bind(config.clone()).await.unwrap();
    drop(first);
    assert!(path.exists(), "the socket of the second server");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    drop(second);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_can_be_shared() {
    let shared =
        |port| ServerConfig { listen: Listen::Tcp { host: "127.0.0.1".into(), port, reuse_port: true }, ..config() };
    let first = Running::start(shared(0)).await;
    let second = Running::start(shared(first.address.port())).await;
    assert_eq!(first.address, second.address);
    first.stop().await;
    second.assert_fine().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_ipv6_can_be_listened_on() {
    for host in ["localhost", "[::1]", "::1"] {
        let server = Running::start(ServerConfig { listen: Listen::new(host, 0), ..config() }).await;
        server.assert_fine().await;
        server.stop().await;
    }
    let error = Server::bind(ServerConfig { listen: Listen::new("no.such.host.invalid", 1), ..config() }).await;
    assert!(matches!(error, Err(ServeError::Bind { .. })));
}

/// Files of a certificate for `localhost`, and what a client trusts.
fn certificate(folder: &std::path::Path) -> (TlsFiles, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles { certificates: folder.join("cert.pem"), key: folder.join("key.pem") };
    std::fs::write(&files.certificates, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    (files, made.cert.der().clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken() {
    let folder = tempfile::tempdir().unwrap();
    let (files, trusted) = certificate(folder.path());
    let server = Running::start(ServerConfig { tls: Some(files), ..config() }).await;
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(client));
    let name = ServerName::try_from("localhost").unwrap();
    let mut client =
        Client::new(connector.connect(name, TcpStream::connect(server.address).await.unwrap()).await.unwrap());
    for _ in 0..2 {
        client.send(decision(BODY)).await;
        assert_eq!(client.answer().await.status, 200);
    }
    // Who does not speak it is sent away, and nobody waits for a handshake at the end.
    let mut plain = server.connect().await;
    plain.send(get("/health")).await;
    assert!(plain.try_answer(false).await.is_none());
    let _silent = server.connect().await;
    let stopped = tokio::time::timeout(Duration::from_secs(3), server.stop()).await;
    assert!(stopped.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_no_certificate_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = certificate(folder.path());
    let other = tempfile::tempdir().unwrap();
    let (others, _) = certificate(other.path());
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for (certificates, key, named) in [
        (&empty, &files.key, "empty.pem"),
        (&folder.path().join("none.pem"), &files.key, "none.pem"),
        (&files.certificates, &empty, "empty.pem"),
        (&files.certificates, &others.key, "key.pem"),
    ] {
        let tls = Some(TlsFiles { certificates: certificates.clone(), key: key.clone() });
        let error = Server::bind(ServerConfig { tls, ..config() }).await.unwrap_err();
        assert!(
            error.to_string().starts_with("TLS cannot be set up: ") && error.to_string().contains(named),
            "{error}"
        );
    }
}
