//! Running `clef-server` as a person would: its start line, its lines of log, its port, its end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use clef_testkit::built_in_model;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::command::{Run, in_clean_environment};

/// Longer than anything here takes, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The line that says that requests are answered.
pub(crate) const READY: &str = "server is listening on ";

/// A server that runs; killed when dropped.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    log: Vec<String>,
    address: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Runs `clef-server` to its end.
pub(crate) fn clef_server(flags: &[&str]) -> Run {
    let output = command(flags).output().unwrap();
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn command(flags: &[&str]) -> Command {
    let mut command = in_clean_environment(env!("CARGO_BIN_EXE_clef-server"));
    command.args(flags).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a server on the built-in model with one thread, on any free port, and waits until it answers.
pub(crate) fn serving(flags: &[&str]) -> Running {
    let mut server = Running::on_a_port(flags);
    server.wait_for(READY);
    server
}

impl Running {
    /// As [`serving`], but the model may still be loading.
    pub(crate) fn on_a_port(flags: &[&str]) -> Self {
        let model = built_in_model();
        let mut all = vec!["-m", model.to_str().unwrap(), "-t", "1", "--port", "0"];
        all.extend(flags);
        let (mut server, stdout) = Self::start(&all);
        server.read_address(stdout);
        server
    }

    /// A server with exactly these flags and these variables; there may be no model yet.
    pub(crate) fn in_environment(environment: &[(&str, &str)], flags: &[&str]) -> Self {
        let mut command = command(flags);
        command.envs(environment.iter().copied());
        let (mut server, stdout) = Self::spawn(command);
        server.read_address(stdout);
        server
    }

    fn read_address(&mut self, stdout: std::process::ChildStdout) {
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("http://");
        self.address = address.unwrap_or_else(|| panic!("an address on standard output: {line:?}")).to_owned();
    }

    /// A server on a Unix socket.
    pub(crate) fn on_a_socket(path: &Path) -> Self {
        let model = built_in_model();
        let host = path.to_str().unwrap();
        let (mut server, _) = Self::start(&["-m", model.to_str().unwrap(), "-t", "1", "--host", host]);
        server.address = host.to_owned();
        server.wait_for(READY);
        server
    }

    fn start(flags: &[&str]) -> (Self, std::process::ChildStdout) {
        Self::spawn(command(flags))
    }

    fn spawn(mut command: Command) -> (Self, std::process::ChildStdout) {
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let stdout = child.stdout.take().unwrap();
        (Self { child, lines, log: Vec::new(), address: String::new() }, stdout)
    }

    /// Waits for a line of log with some words in it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, words: &str) {
        while !self.log.last().is_some_and(|line| line.contains(words)) {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.log.push(line),
                Err(error) => panic!("{error} while waiting for {words:?} after {:#?}", self.log),
            }
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.exchange(&post(path, "", body))
    }

    pub(crate) fn post_with_key(&self, path: &str, key: &str, body: &str) -> Answer {
        self.exchange(&post(path, &format!("Authorization: Bearer {key}\r\n"), body))
    }

    /// Sends a request on a connection of its own, and reads until the server closes it.
    fn exchange(&self, request: &str) -> Answer {
        let mut answer = String::new();
        if self.address.ends_with(".sock") {
            let mut stream = UnixStream::connect(&self.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream.read_to_string(&mut answer).unwrap();
        } else {
            let mut stream = TcpStream::connect(&self.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream.read_to_string(&mut answer).unwrap();
        }
        read(&answer)
    }

    /// Sends a request and does not wait for its answer.
    pub(crate) fn begin(&self, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(post(path, "", body).as_bytes()).unwrap();
        stream
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits for the end; the exit code and all of the log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.log.push(line);
        }
        (code, self.log.join("\n"))
    }

    /// SIGTERM, and what comes of it.
    pub(crate) fn terminate(self) -> (Option<i32>, String) {
        self.send(Signal::SIGTERM);
        self.end()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already where a test has seen its end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

/// Reads an answer that is complete.
#[track_caller]
pub(crate) fn read(answer: &str) -> Answer {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("an answer: {answer:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.map(|line| line.split_once(": ").unwrap());
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    Answer { status, headers, body: body.to_owned() }
}
