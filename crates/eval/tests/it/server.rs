//! A server of one connection a request, which says what a test tells it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Method and path.
    pub(crate) line: String,
    /// Names in small letters.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// What comes back.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Status, headers and body.
    Says(u16, Vec<(&'static str, &'static str)>, Vec<u8>),
    /// Nothing, until the client goes.
    Silence,
    /// The connection ends.
    Hangup,
}

impl Reply {
    pub(crate) fn says(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::Says(status, Vec::new(), body.into())
    }

    pub(crate) fn with(self, name: &'static str, value: &'static str) -> Self {
        match self {
            Self::Says(status, mut headers, body) => {
                headers.push((name, value));
                Self::Says(status, headers, body)
            }
            other => other,
        }
    }
}

/// Serves a list of replies, the last one for ever; its thread ends with the process.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    pub(crate) fn new(replies: Vec<Reply>) -> Self {
        Self::over("http", replies, Some)
    }

    /// Over what `dress` makes of a connection, such as TLS.
    pub(crate) fn over<S: Read + Write>(
        scheme: &str,
        replies: Vec<Reply>,
        dress: impl Fn(TcpStream) -> Option<S> + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("{scheme}://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let (seen, replies, dress) = (Arc::clone(&seen), replies.clone(), dress.clone());
                std::thread::spawn(move || dress(stream).and_then(|stream| serve(stream, &seen, &replies)));
            }
        });
        Self { address, received }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

/// A client that goes away is no fault of a server's.
fn serve(stream: impl Read + Write, seen: &Mutex<Vec<Received>>, replies: &[Reply]) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let received = receive(&mut reader)?;
    let reply = {
        let mut seen = seen.lock().unwrap();
        seen.push(received);
        replies[(seen.len() - 1).min(replies.len() - 1)].clone()
    };
    match reply {
        Reply::Says(status, headers, body) => {
            let mut head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
            headers.iter().for_each(|(name, value)| head.extend([*name, ": ", *value, "\r\n"]));
            let stream = reader.get_mut();
            stream.write_all(format!("{head}\r\n").as_bytes()).ok()?;
            stream.write_all(&body).ok()
        }
        Reply::Silence => reader.read_to_end(&mut Vec::new()).ok().map(drop),
        Reply::Hangup => Some(()),
    }
}

fn receive(reader: &mut impl BufRead) -> Option<Received> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned())
    };
    let first = line()?;
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(Some(0), |(_, length)| length.parse().ok())?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let line = first.trim_end_matches(" HTTP/1.1").to_owned();
    Some(Received { line, headers, body })
}
