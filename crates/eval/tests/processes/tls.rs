//! Servers that only the system trusts.

use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;

use clef_eval::{Answerer, Remote, RemoteOptions};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::server::{Reply, Server};

/// Where the test in the other process finds the server.
const ADDRESS: &str = "CLEF_EVAL_TEST_ADDRESS";

/// Runs the test below in a process of its own, because the system's certificates are found by its environment.
#[track_caller]
fn ask_elsewhere(address: &str, certificates: Option<&std::path::Path>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tls::a_server_is_asked_from_another_process", "--include-ignored", "--nocapture"]);
    command.env(ADDRESS, address).env_remove("SSL_CERT_DIR").env_remove("SSL_CERT_FILE");
    if let Some(certificates) = certificates {
        command.env("SSL_CERT_FILE", certificates);
    }
    let output = command.output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
#[ignore = "asks the server of the test below, which runs it"]
fn a_server_is_asked_from_another_process() {
    let address = std::env::var(ADDRESS).unwrap();
    match Remote::new(&address, RemoteOptions::default()).unwrap().answer(b"{}") {
        Ok(answer) => panic!("answered: {}", String::from_utf8_lossy(&answer)),
        Err(error) => panic!("not answered: {error}"),
    }
}

#[test]
fn a_server_is_trusted_if_the_system_trusts_it() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), made.cert.pem()).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let dress =
        move |stream: TcpStream| Some(StreamOwned::new(ServerConnection::new(Arc::clone(&config)).ok()?, stream));
    let server = Server::over("https", vec![Reply::says(200, "hello")], dress);
    let address = server.address.replace("127.0.0.1", "localhost");

    let said = ask_elsewhere(&address, Some(file.path()));
    assert!(said.contains("answered: hello") && !said.contains("not answered"), "{said}");
    let said = ask_elsewhere(&address, None);
    assert!(said.contains("is not trusted: ") && said.contains("with SSL_CERT_FILE"), "{said}");
}
