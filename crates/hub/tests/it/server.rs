//! An HTTP server that does as it is told, wrong things too, and remembers what it was asked.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    headers: Vec<(String, String)>,
    /// How many requests with the same method and target came before it.
    pub(crate) earlier: usize,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The first byte that is asked for: `Range: bytes=100-`.
    pub(crate) fn range_start(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }

    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }
}

/// What to send.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// The length that is announced; none: none is, and the body is sent in chunks if so told.
    announced: Option<u64>,
    is_chunked: bool,
    /// Send so many bytes of the body and do this.
    end: Option<(usize, End)>,
    /// Send this and nothing else; with an end, wait for the client to go away.
    raw: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Close the connection.
    Cut,
    /// Send nothing more until the client goes away.
    Stall,
    /// Send the last byte again and again until the client goes away.
    Repeat,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let announced = Some(body.len() as u64);
        Self { status, headers: Vec::new(), body, announced, is_chunked: false, end: None, raw: None }
    }

    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { raw: Some(bytes.into()), ..Self::new(200, "") }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Display) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn chunked(self) -> Self {
        Self { announced: None, is_chunked: true, ..self }
    }

    pub(crate) fn without_length(self) -> Self {
        Self { announced: None, ..self }
    }

    pub(crate) fn ending(self, after: usize, end: End) -> Self {
        Self { end: Some((after, end)), ..self }
    }
}

/// A file, or the rest of one if that is what is asked for.
pub(crate) fn file_reply(seen: &Seen, contents: &[u8]) -> Reply {
    match seen.range_start() {
        None => Reply::new(200, contents),
        Some(start) if start >= contents.len() => {
            Reply::new(416, "").header("Content-Range", format!("bytes */{}", contents.len()))
        }
        Some(start) => Reply::new(206, &contents[start..])
            .header("Content-Range", format!("bytes {start}-{}/{}", contents.len() - 1, contents.len())),
    }
}

type Handler = dyn Fn(&Seen) -> Reply + Send + Sync;

/// A running server; it ends with the value.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    is_ending: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let is_ending = Arc::new(AtomicBool::new(false));
        let handler: Arc<Handler> = Arc::new(handler);
        let acceptor = thread::spawn({
            let (seen, is_ending) = (Arc::clone(&seen), Arc::clone(&is_ending));
            move || {
                let mut connections = Vec::new();
                for stream in listener.incoming() {
                    if is_ending.load(Ordering::SeqCst) {
                        break;
                    }
                    let (handler, seen) = (Arc::clone(&handler), Arc::clone(&seen));
                    connections.push(thread::spawn(move || serve(&stream.unwrap(), &*handler, &seen)));
                }
                for connection in connections {
                    connection.join().unwrap();
                }
            }
        });
        Self { address, seen, is_ending, acceptor: Some(acceptor) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The requests so far as `GET /path`, without queries.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.seen().iter().map(|seen| format!("{} {}", seen.method, seen.path())).collect()
    }

    pub(crate) fn forget(&self) {
        self.seen.lock().unwrap().clear();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        let result = self.acceptor.take().unwrap().join();
        if !thread::panicking() {
            result.unwrap();
        }
    }
}

/// One request and one reply; what the client does in between is its own business.
fn serve(stream: &TcpStream, handler: &Handler, all: &Mutex<Vec<Seen>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let Some(mut seen) = read_head(&mut reader) else {
        return;
    };
    {
        let mut all = all.lock().unwrap();
        seen.earlier = all.iter().filter(|one| one.method == seen.method && one.target == seen.target).count();
        all.push(seen.clone());
    }
    let reply = handler(&seen);
    let _ = send(stream, &mut reader, &seen, &reply);
}

fn read_head(reader: &mut impl BufRead) -> Option<Seen> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => return Some(Seen { method, target, headers, earlier: 0 }),
        }
    }
}

fn send(mut stream: &TcpStream, reader: &mut impl Read, seen: &Seen, reply: &Reply) -> std::io::Result<()> {
    if let Some(raw) = &reply.raw {
        stream.write_all(raw)?;
        return if reply.end.is_some() { reader.read(&mut [0]).map(|_| ()) } else { Ok(()) };
    }
    let mut head = format!("HTTP/1.1 {} Some Reason\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(announced) = reply.announced {
        head.push_str(&format!("Content-Length: {announced}\r\n"));
    } else if reply.is_chunked {
        head.push_str("Transfer-Encoding: chunked\r\n");
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    if seen.method == "HEAD" {
        return Ok(());
    }
    let sent = &reply.body[..reply.end.map_or(reply.body.len(), |(after, _)| after)];
    if reply.is_chunked {
        for chunk in sent.chunks(1_000) {
            stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
            stream.write_all(chunk)?;
            stream.write_all(b"\r\n")?;
        }
    } else {
        stream.write_all(sent)?;
    }
    match reply.end {
        None if reply.is_chunked => stream.write_all(b"0\r\n\r\n"),
        None | Some((_, End::Cut)) => Ok(()),
        Some((_, End::Stall)) => reader.read(&mut [0]).map(|_| ()),
        Some((_, End::Repeat)) => {
            let block = [*sent.last().unwrap_or(&b' '); 64 << 10];
            loop {
                if reply.is_chunked {
                    stream.write_all(format!("{:x}\r\n", block.len()).as_bytes())?;
                }
                stream.write_all(&block)?;
                if reply.is_chunked {
                    stream.write_all(b"\r\n")?;
                }
            }
        }
    }
}
