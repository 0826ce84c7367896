//! Several who want the same file at once, and those who stand between.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clef_hub::{ErrorKind, Hub, Phase, Proxies};

use crate::server::file_reply;
use crate::support::{Disk, FakeHub, assert_said_once, fetch, read, request, sha256};

#[test]
fn two_who_want_the_same_file_fetch_it_once() {
    let fake = FakeHub::with_one_model();
    let model = fake.model();
    // Slow enough that the second comes while the first still fetches.
    fake.on_cdn(move |seen| {
        thread::sleep(Duration::from_millis(100));
        Some(file_reply(seen, &model))
    });
    let disk = Disk::new();
    let start = Barrier::new(4);
    thread::scope(|scope| {
        let fetchers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let hub = disk.hub(&fake);
                    start.wait();
                    read(fetch(&hub, "user/repo").unwrap().path())
                })
            })
            .collect();
        for fetcher in fetchers {
            assert_eq!(fetcher.join().unwrap(), fake.model());
        }
    });
    assert_eq!(fake.cdn.asked().len(), 1);
}

#[test]
fn waiting_for_another_process_can_be_cancelled() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    // As another process, or Python's filelock, holds it.
    let lock = disk.cache().join(".locks/models--user--repo").join(format!("{}.lock", sha256(&fake.model())));
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let lock = std::fs::File::create(lock).unwrap();
    lock.lock().unwrap();
    let mut waited = 0;
    let result = disk.hub(&fake).fetch_model(&request("user/repo"), &mut |progress| {
        assert_eq!(progress.phase, Phase::Waiting);
        waited += 1;
        if waited == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(fake.cdn.asked(), [""; 0]);
    drop(lock);
    assert_eq!(read(fetch(&disk.hub(&fake), "user/repo").unwrap().path()), fake.model());
}

/// A proxy that lets everything through, for one connection after the other; returns what it was asked to connect to.
fn tunnel(listener: &TcpListener, is_ending: &AtomicBool) -> Vec<String> {
    let mut targets = Vec::new();
    for stream in listener.incoming() {
        if is_ending.load(Ordering::SeqCst) {
            break;
        }
        let mut client = stream.unwrap();
        let mut reader = BufReader::new(client.try_clone().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let target = line.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned();
        while line.trim_end() != "" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        let mut server = TcpStream::connect(&target).unwrap();
        targets.push(target);
        client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
        let mut answers = server.try_clone().unwrap();
        let back = thread::spawn(move || std::io::copy(&mut answers, &mut client).map(|_| drop(client)));
        let _ = std::io::copy(&mut reader, &mut server);
        let _ = server.shutdown(std::net::Shutdown::Both);
        let _ = back.join().unwrap();
    }
    targets
}

#[test]
fn a_proxy_is_gone_through_except_to_those_it_is_not_for() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listener.local_addr().unwrap();
    let is_ending = AtomicBool::new(false);
    let targets = thread::scope(|scope| {
        let tunnel = scope.spawn(|| tunnel(&listener, &is_ending));
        for exceptions in [&["127.0.0.1"][..], &["elsewhere"]] {
            let mut options = disk.options(&fake.hub.url(""));
            let exceptions = exceptions.iter().map(|&host| host.to_owned()).collect();
            options.proxies = Proxies { http: Some(format!("http://{proxy}")), https: None, exceptions };
            fetch(&Hub::new(options).unwrap(), "user/repo").unwrap();
        }
        is_ending.store(true, Ordering::SeqCst);
        TcpStream::connect(proxy).unwrap();
        tunnel.join().unwrap()
    });
    assert_eq!(fake.hub.asked().len(), 3, "a list and a file, and a list");
    assert_eq!(targets, [fake.hub.url("").strip_prefix("http://").unwrap()]);
}

#[test]
fn a_proxy_that_is_dead_is_what_cannot_be_reached() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listener.local_addr().unwrap();
    drop(listener);
    for (endpoint, variable) in [(fake.hub.url(""), "http_proxy"), ("https://hub.invalid".to_owned(), "https_proxy")] {
        let mut options = disk.options(&endpoint);
        let address = Some(format!("http://user:secret@{proxy}"));
        options.proxies = Proxies { http: address.clone(), https: address, exceptions: Vec::new() };
        let error = fetch(&Hub::new(options).unwrap(), "user/repo").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        let message = error.message();
        assert!(message.starts_with(&format!("the proxy {proxy} cannot be reached: ")), "{message}");
        assert!(message.ends_with(&format!("; check the network and the proxy ({variable}, all_proxy)")), "{message}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        assert_said_once(&error);
    }
}

#[test]
fn a_proxy_that_does_not_let_through_is_named() {
    let fake = FakeHub::with_one_model();
    let proxy = crate::server::Server::start(|_| crate::server::Reply::new(407, ""));
    let mut options = Disk::new().options(&fake.hub.url(""));
    options.proxies.http = Some(proxy.url(""));
    let error = fetch(&Hub::new(options).unwrap(), "user/repo").unwrap_err();
    let name = proxy.url("").replace("http://", "");
    let expected = format!("127.0.0.1 cannot be reached through the proxy {name}: proxy server responded 407; ");
    assert!(error.message().starts_with(&expected), "{error}");
}

#[test]
fn a_proxy_of_another_kind_is_refused_unless_nobody_is_asked() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    fetch(&disk.hub(&fake), "user/repo").unwrap();
    for scheme in ["socks5", "socks4", "socks4a"] {
        let mut options = disk.options(&fake.hub.url(""));
        options.proxies.https = Some(format!("{scheme}://user:secret@127.0.0.1:1080"));
        let error = Hub::new(options.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        let start = "the proxy 127.0.0.1:1080 speaks SOCKS, and only HTTP is spoken here; ";
        assert!(error.message().starts_with(start), "{error}");
        options.offline = true;
        fetch(&Hub::new(options).unwrap(), "user/repo").unwrap();
    }
}

#[test]
fn what_cannot_be_set_up_is_said_at_once() {
    let disk = Disk::new();
    type Change = fn(&mut clef_hub::HubOptions);
    let changes: [Change; 4] = [
        |options| options.endpoint = "huggingface.co".to_owned(),
        |options| options.user_agent = "a\r\nb".to_owned(),
        |options| options.proxies.https = Some("gopher://user:password@host".to_owned()),
        |options| options.proxies.http = Some(String::new()),
    ];
    for change in changes {
        let mut options = disk.options("http://127.0.0.1:1");
        change(&mut options);
        let error = Hub::new(options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(!format!("{error} {error:?}").contains("password"), "{error:?}");
    }
}
