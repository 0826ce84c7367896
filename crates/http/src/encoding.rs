//! Compressed bodies, read piece by piece.
//!
//! A decoder hands out at most a buffer's worth at a time, so a body that would grow a million times its size is noticed
//! when it passes the limit, not after it has grown. Windows are bounded too: a frame may not ask for memory that its
//! text never fills.

use std::io;
use std::pin::Pin;

use async_compression::tokio::bufread::{BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use hyper::HeaderMap;
use hyper::header::CONTENT_ENCODING;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt as _};

use crate::error::{Failure, FailureKind};

/// What `Content-Encoding` may say, as `Accept-Encoding` lists it.
pub(crate) const KNOWN: &str = "zstd, gzip, br, deflate, identity";

/// 8 MiB, the largest window of zstd in HTTP (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;

/// How a stream with an unlimited window begins, in its first seven bits.
const BROTLI_LARGE_WINDOW: u8 = 0x11;

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Zstd,
    Gzip,
    Brotli,
    Deflate,
}

impl Encoding {
    /// Reads `Content-Encoding`. One encoding at most: a second one would multiply what a small body can cost.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Failure> {
        let mut found = Self::Identity;
        for value in headers.get_all(CONTENT_ENCODING) {
            for name in value.as_bytes().split(|&byte| byte == b',') {
                let encoding = match name.trim_ascii().to_ascii_lowercase().as_slice() {
                    b"" | b"identity" => continue,
                    b"zstd" => Self::Zstd,
                    b"gzip" | b"x-gzip" => Self::Gzip,
                    b"br" => Self::Brotli,
                    b"deflate" => Self::Deflate,
                    _ => return Err(refused("an encoding that is not known")),
                };
                if found != Self::Identity {
                    return Err(refused("more than one encoding"));
                }
                found = encoding;
            }
        }
        Ok(found)
    }

    /// Reads what `source` holds.
    pub(crate) async fn decode<'s>(
        self,
        mut source: impl AsyncBufRead + Send + Unpin + 's,
    ) -> io::Result<Pin<Box<dyn AsyncRead + Send + 's>>> {
        Ok(match self {
            Self::Identity => Box::pin(source),
            Self::Zstd => {
                let mut decoder = ZstdDecoder::with_params(source, &[DParameter::window_log_max(ZSTD_WINDOW_LOG)]);
                decoder.multiple_members(true);
                Box::pin(decoder)
            }
            Self::Gzip => {
                let mut decoder = GzipDecoder::new(source);
                decoder.multiple_members(true);
                Box::pin(decoder)
            }
            Self::Brotli => {
                // The decoder would also take windows of up to 1 GiB, which the format (RFC 7932) does not have.
                let first = source.read_u8().await?;
                if first & 0x7f == BROTLI_LARGE_WINDOW {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "its window is too large"));
                }
                Box::pin(BrotliDecoder::new(io::Cursor::new([first]).chain(source)))
            }
            Self::Deflate => {
                // The name means zlib's format; some clients send the bare one.
                let mut head = [0; 2];
                source.read_exact(&mut head).await?;
                let source = io::Cursor::new(head).chain(source);
                let is_zlib = head[0] & 0x0f == 8 && u16::from_be_bytes(head) % 31 == 0;
                if is_zlib { Box::pin(ZlibDecoder::new(source)) } else { Box::pin(DeflateDecoder::new(source)) }
            }
        })
    }
}

fn refused(what: &str) -> Failure {
    Failure::new(FailureKind::UnknownEncoding, format!("Content-Encoding names {what}; one of {KNOWN} is taken"))
}
