//! Where connections come from: a network address or a Unix socket.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use crate::config::Listen;

/// Connections that the operating system keeps waiting; it may keep fewer.
const BACKLOG: u32 = 4_096;

/// Where a server can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalAddress {
    /// A network address; the port is the real one.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A bound socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Binds at once; connections wait until they are accepted.
    pub(crate) async fn bind(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Tcp { host, port, reuse_port } => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                let host = host.trim_start_matches('[').trim_end_matches(']');
                for address in tokio::net::lookup_host((host, *port)).await? {
                    match bind_tcp(address, *reuse_port) {
                        Ok(listener) => return Ok(Self::Tcp(listener)),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Listen::Unix(path) => {
                remove_dead_socket(path).await?;
                let listener = UnixListener::bind(path)?;
                let id = FileId::of(&fs::symlink_metadata(path)?);
                Ok(Self::Unix(listener, SocketFile { path: path.clone(), id }))
            }
        }
    }

    pub(crate) fn local_address(&self) -> io::Result<LocalAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(LocalAddress::Tcp),
            Self::Unix(_, file) => Ok(LocalAddress::Unix(file.path.clone())),
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Answers are written whole, so there is nothing to wait for. An error means the client is gone.
                let _ = stream.set_nodelay(true);
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(listener, _) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, file) = self {
            // The listener is still open here, so the system cannot have given its file's number to another file.
            let is_ours = fs::symlink_metadata(&file.path).is_ok_and(|found| FileId::of(&found) == file.id);
            if is_ours {
                // Someone may take it away at the same time.
                let _ = fs::remove_file(&file.path);
            }
        }
    }
}

/// The file of a Unix socket that this server made.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    id: FileId,
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Removes the socket that a dead server left at a path. Nothing that is not a socket is ever removed.
async fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        let message = format!("{} is there and is no socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    if let Err(error) = UnixStream::connect(path).await
        && error.kind() == io::ErrorKind::ConnectionRefused
        // Another server that starts may have replaced it in the meantime.
        && FileId::of(&fs::symlink_metadata(path)?) == FileId::of(&found)
    {
        fs::remove_file(path)?;
    }
    Ok(())
}

fn bind_tcp(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A port is free again as soon as the server that had it has ended.
    socket.set_reuseaddr(true)?;
    if reuse_port {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
