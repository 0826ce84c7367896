//! `POST /tokenize` and `/detokenize`, as llama-server documents them.

use std::fmt;
use std::sync::Arc;

use clef_record::TokenId;
use hyper::{HeaderMap, StatusCode};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::body::{Body, RequestBody};
use crate::context::Context;
use crate::error::Failure;
use crate::model::{Model, Text, TokenizeOptions};
use crate::reply::Reply;

/// The longest body: a million tokens of text, and more than any context. Lists take more memory than their text, so
/// the general limit would be too much here.
const MAX_BYTES: usize = 8 << 20;

#[derive(Deserialize)]
struct TokenizeRequest {
    content: Content,
    #[serde(default)]
    add_special: bool,
    #[serde(default = "yes")]
    parse_special: bool,
    #[serde(default)]
    with_pieces: bool,
}

fn yes() -> bool {
    true
}

/// A text, or a list of texts and tokens.
struct Content(Vec<Part>);

enum Part {
    Text(String),
    Token(i32),
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or an array of strings and tokens")
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content(vec![Part::Text(text.to_owned())]))
    }

    fn visit_string<E>(self, text: String) -> Result<Content, E> {
        Ok(Content(vec![Part::Text(text)]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Item {
            Token(i32),
            Text(String),
        }
        let mut parts = Vec::new();
        while let Some(item) = list.next_element()? {
            parts.push(match item {
                Item::Token(token) => Part::Token(token),
                Item::Text(text) => Part::Text(text),
            });
        }
        Ok(Content(parts))
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tokens {
    Ids { tokens: Vec<i32> },
    Pieces { tokens: Vec<TokenWithPiece> },
}

#[derive(Serialize)]
struct TokenWithPiece {
    id: i32,
    piece: Piece,
}

/// A token's text, or its bytes where they are no whole characters.
#[derive(Serialize)]
#[serde(untagged)]
enum Piece {
    Text(String),
    Bytes(Vec<u8>),
}

pub(crate) async fn tokenize(
    context: &Context,
    model: &Model,
    headers: &HeaderMap,
    body: &mut RequestBody,
) -> Result<Reply, Failure> {
    apart(context, model, headers, body, |text, request: TokenizeRequest| {
        let options = TokenizeOptions { add_special: request.add_special, parse_special: request.parse_special };
        let mut tokens = Vec::new();
        for (index, part) in request.content.0.into_iter().enumerate() {
            match part {
                Part::Token(token) => tokens.push(token),
                Part::Text(part) => {
                    // What goes around a text goes around the whole.
                    let options = TokenizeOptions { add_special: options.add_special && index == 0, ..options };
                    let found = text.tokenize(&part, options).map_err(Failure::fault)?;
                    tokens.extend(found.into_iter().map(|TokenId(token)| token));
                }
            }
        }
        if !request.with_pieces {
            return Ok(Reply::json(StatusCode::OK, &Tokens::Ids { tokens }));
        }
        let with_piece = |id| Ok(TokenWithPiece { id, piece: into_piece(bytes_of(text, id)?) });
        let tokens = tokens.into_iter().map(with_piece).collect::<Result<_, Failure>>()?;
        Ok(Reply::json(StatusCode::OK, &Tokens::Pieces { tokens }))
    })
    .await
}

#[derive(Deserialize)]
struct DetokenizeRequest {
    tokens: Vec<i32>,
}

#[derive(Serialize)]
struct Detokenized<'a> {
    content: &'a str,
}

pub(crate) async fn detokenize(
    context: &Context,
    model: &Model,
    headers: &HeaderMap,
    body: &mut RequestBody,
) -> Result<Reply, Failure> {
    apart(context, model, headers, body, |text, request: DetokenizeRequest| {
        let mut bytes = Vec::new();
        for token in request.tokens {
            bytes.extend(bytes_of(text, token)?);
        }
        Ok(Reply::json(StatusCode::OK, &Detokenized { content: &String::from_utf8_lossy(&bytes) }))
    })
    .await
}

/// Reads a request and answers it on a thread that may block: a vocabulary takes its time.
async fn apart<R: for<'de> Deserialize<'de> + 'static>(
    context: &Context,
    model: &Model,
    headers: &HeaderMap,
    body: &mut RequestBody,
    answer: impl FnOnce(&dyn Text, R) -> Result<Reply, Failure> + Send + 'static,
) -> Result<Reply, Failure> {
    let Body { bytes, share } = body.read(context, headers, MAX_BYTES).await?;
    let text = model.text.as_ref().map(Arc::clone);
    let text = text.ok_or_else(|| Failure::not_supported("this server has no vocabulary to show"))?;
    let _permit = context.parsers.acquire().await.map_err(|_| Failure::shutting_down())?;
    let answered = tokio::task::spawn_blocking(move || {
        let request = serde_json::from_slice(&bytes).map_err(|error| refused(&error))?;
        let reply = answer(&*text, request);
        drop(share);
        reply
    });
    answered.await.map_err(|_| Failure::fault("the request failed in the server"))?
}

fn refused(error: &serde_json::Error) -> Failure {
    let slug = if error.is_data() { "value_error" } else { "json_invalid" };
    Failure::invalid(vec!["body".into(), error.column().into()], slug, format!("body is not valid: {error}"))
}

fn bytes_of(text: &dyn Text, token: i32) -> Result<Vec<u8>, Failure> {
    text.piece(TokenId(token)).ok_or_else(|| {
        let loc = vec!["body".into(), "tokens".into()];
        Failure::invalid(loc, "value_error", format!("the vocabulary has no token {token}"))
    })
}

fn into_piece(bytes: Vec<u8>) -> Piece {
    String::from_utf8(bytes).map_or_else(|error| Piece::Bytes(error.into_bytes()), Piece::Text)
}
